# SPDX-License-Identifier: Apache-2.0
"""SavedModels with engines, as TF-TRT's TrtGraphConverterV2 made them."""

import hashlib
import os
import pathlib
import tempfile
from typing import NamedTuple

import tensorflow
from tensorflow.core.framework import graph_pb2  # pylint: disable=no-name-in-module
from tensorflow.python.eager import wrap_function  # pylint: disable=no-name-in-module
from tensorflow.python.framework.convert_to_constants import (  # pylint: disable=no-name-in-module
    convert_variables_to_constants_v2)

from ..calibrating import batches_of
from ..embedding import embed
from ..errors import InvalidArgumentError, UnsupportedError
from . import profiles, resources, segments, switches
from .library import load_library
from .trt import (DEFAULT_WORKSPACE, finish_engines, int8_options, is_learning, precision_of, tell_copies,
                  withdraw_engines)

DEFAULT_SIGNATURE = "serving_default"
ASSET = "graft-engine"
MOST_BYTES = (1 << 31) - 1  # of a GraphDef


class Given(NamedTuple):
    """A placeholder of the frozen graph; sizes that it leaves open are None, as far as its rank is known."""

    node: str
    shape: list


class Converter:
    """A signature of a SavedModel, with engines for the parts that they can run.

        converter = graft.tensorflow.Converter("resnet", dynamic_shape_profile_strategy="Optimal")
        converter.convert()
        converter.build(lambda: [(numpy.zeros((8, 224, 224, 3), "float32"),)])
        converter.save("resnet_graft")

    input_saved_model_dir, _tags, _signature_key  the signature to convert: tags ["serve"], signature "serving_default"
    dynamic_shape_profile_strategy  the engines that build() makes: "Range", "Optimal", "Range+Optimal",
                                    "ImplicitBatchModeCompatible"; a call takes the tightest that holds its shapes
    precision_mode                  "FP32", "FP16" or "INT8"; convert() then takes samples
    use_calibration                 False: the ranges of INT8 are those of the model's FakeQuant nodes
    minimum_segment_size            fewest operators of an engine
    maximum_cached_engines          most engines of one node in memory; the least recently used one is dropped first
    allow_build_at_runtime          False: shapes that build() has not seen run in TensorFlow, which is counted

    Accepted and ignored: use_dynamic_shape (dynamic sizes of the model stay dynamic),
    max_workspace_size_bytes, conversion_params. `options` are those of graft.embed(), and of INT8 calibration_file,
    method and max_error, as for graft.quantize.
    """

    def __init__(self, input_saved_model_dir=None, input_saved_model_tags=None, input_saved_model_signature_key=None,
                 use_dynamic_shape=None, dynamic_shape_profile_strategy=None,
                 max_workspace_size_bytes=DEFAULT_WORKSPACE, precision_mode="FP32", minimum_segment_size=3,
                 maximum_cached_engines=1, use_calibration=True, allow_build_at_runtime=True, conversion_params=None,
                 **options):
        del use_dynamic_shape
        if conversion_params is not None:
            raise UnsupportedError("conversion_params: give its members as parameters of their own")
        if input_saved_model_dir is None:
            raise InvalidArgumentError("input_saved_model_dir is the folder of a SavedModel: give it")
        if max_workspace_size_bytes < 0 or maximum_cached_engines < 1:
            raise InvalidArgumentError("maximum_cached_engines is at least 1, and max_workspace_size_bytes not "
                                       "negative")
        self._folder = str(input_saved_model_dir)
        self._tags = list(input_saved_model_tags or ["serve"])
        self._signature = input_saved_model_signature_key or DEFAULT_SIGNATURE
        self._strategy = profiles.strategy_of(dynamic_shape_profile_strategy)
        self._most = maximum_cached_engines
        self._build_at_runtime = allow_build_at_runtime
        precision = precision_of(precision_mode)
        self._options = {**int8_options(precision, use_calibration, options), "precision": precision,
                         "minimum_size": max(int(minimum_segment_size), 1)}
        self._ranges = None  # the folder of the calibration file, where the caller wants none
        if "calibration_iters" in self._options and "calibration_file" not in self._options:
            self._ranges = tempfile.TemporaryDirectory()
            self._options["calibration_file"] = os.path.join(self._ranges.name, "ranges.json")
        self.report = None  # once converted: what became engines, and why the rest did not
        self._inputs = self._outputs = ()  # of the frozen graph
        self._resources = ()  # what it takes beside the signature's: tables
        self._original = self._made = self._function = self._specs = self._structure = None

    def convert(self, calibration_input_fn=None):
        """Converts the signature, and returns it as a function. Builds engines for all of its dynamic sizes.

        calibration_input_fn  of INT8: gives samples, each a list, tuple or dict of the signature's inputs, on which the
                              model runs in fp32 once
        """
        learns = "calibration_iters" in self._options
        if calibration_input_fn is not None and not learns:
            raise InvalidArgumentError("calibration_input_fn is for precision_mode 'INT8' with use_calibration=True")
        load_library()
        self.report = None
        tell_copies(self._options.get("device", "cpu"))
        model = tensorflow.saved_model.load(self._folder, self._tags)
        if self._signature not in model.signatures:
            raise InvalidArgumentError(f"{self._folder} has no signature {self._signature!r}; it has "
                                       f"{', '.join(sorted(model.signatures)) or 'none'}")
        function = model.signatures[self._signature]
        resources.check_not_written(function, self._folder)
        self._check_size(function)
        self._freeze(function, model)
        del model, function  # and the variables
        made = self._embed({})
        if learns:
            try:
                self._calibrate(made, calibration_input_fn)
            except BaseException:
                withdraw_engines(made)
                raise
        self._made = made
        self._function = self._called_by_name(self._wrap(self._made)).get_concrete_function(**self._specs)
        return self._function

    def _calibrate(self, graph, input_fn):
        """Runs a graph whose engines learn on samples; then its engines are of int8."""
        if not any(map(is_learning, segments.engines_of(graph))):
            return  # they are quantised, or their ranges were in the file
        if input_fn is None:
            raise InvalidArgumentError("INT8 needs samples: give calibration_input_fn, a calibration_file that is "
                                       "there, or a model with FakeQuant nodes and use_calibration=False")
        run = self._called_by_name(self._wrap(graph)).get_concrete_function(**self._specs)
        names = sorted(self._specs)
        for number, example in enumerate(batches_of(input_fn)):
            values = example if isinstance(example, dict) else dict(zip(names, example))
            shapes_of(example, names, f"sample {number} of calibration_input_fn")
            try:
                run(**{name: tensorflow.convert_to_tensor(value, self._specs[name].dtype)
                       for name, value in values.items()})
            except (TypeError, ValueError, tensorflow.errors.InvalidArgumentError) as error:
                raise InvalidArgumentError(f"sample {number} of calibration_input_fn does not fit the model: "
                                           f"{error}") from None
        self.report += finish_engines(graph)

    def build(self, input_fn):
        """Makes engines for the sizes of examples. `input_fn()` returns these, each a list, tuple or dict of the
        signature's inputs."""
        self._check_converted("build")
        order = dict(zip(sorted(self._specs), self._inputs))
        sizes = {(name, axis): f"{given.node}_{axis}" for name, given in order.items()
                 for axis, size in enumerate(given.shape) if size is None}
        if not sizes:
            return
        observed = [shapes_of(example, sorted(order)) for example in input_fn()]
        engines = segments.engines_of(self._made)
        for each in profiles.profiles_of(self._strategy, sizes, observed):
            made = segments.engines_of(self._embed(each))
            if [(node.name, node.attr["nodes"]) for node in made] != [(node.name, node.attr["nodes"])
                                                                      for node in engines]:
                raise UnsupportedError("the graph divides otherwise for these sizes: give its open sizes as shapes=")
            for node, ready in zip(engines, made):
                node.attr["profiles"].list.s.append(ready.attr["plan"].s)
        if not self._build_at_runtime:
            for node in engines:
                segments.add_function(self._original, self._made, node)
        self._function = self._called_by_name(self._wrap(self._made)).get_concrete_function(**self._specs)

    def save(self, output_saved_model_dir, save_gpu_specific_engines=True, options=None):
        """Writes a SavedModel, with the plans of engines as assets, and the model's other signatures unchanged.
        TensorFlow loads it after load_library(). An existing model is replaced file by file, so that a process that
        serves it continues with the loaded files."""
        del save_gpu_specific_engines  # plans are for processors
        self._check_converted("save")
        target = str(output_saved_model_dir)
        with tempfile.TemporaryDirectory() as folder:
            module, run = self._with_assets(pathlib.Path(folder))
            signatures = {**self._other_signatures(module), self._signature: run}
            if not os.path.isdir(target):
                tensorflow.saved_model.save(module, target, signatures=signatures, options=options)
                return
            with tempfile.TemporaryDirectory(dir=pathlib.Path(target).resolve().parent) as beside:
                made = pathlib.Path(beside) / "model"
                tensorflow.saved_model.save(module, str(made), signatures=signatures, options=options)
                replace_files(made, pathlib.Path(target))

    def _other_signatures(self, module):
        """Those of the model that are not converted, whose variables and tables become `module`'s."""
        model = tensorflow.saved_model.load(self._folder, self._tags)
        others = {name: each for name, each in model.signatures.items() if name != self._signature}
        captured = [tensor for each in others.values() for tensor in each.captured_inputs]
        module.other_resources = resources.owners_of(model, captured)
        module.other_signatures = list(others.values())
        return others

    def summary(self, line_length=160, detailed=True, print_fn=None):
        """Prints each engine: its operators, inputs, outputs and number of profiles."""
        self._check_converted("summary")
        tell = print_fn or print
        for node in segments.engines_of(self._made):
            shapes = [str(tensorflow.TensorShape(shape)) for shape in node.attr["output_shapes"].list.shape]
            types = {key: [tensorflow.as_dtype(each).name for each in node.attr[key].list.type]
                     for key in ("InT", "OutT")}
            lines = [f"{node.name}: {node.attr['contents'].s.decode()}"]
            if detailed:
                results = (f"{name.decode()} {dtype}{shape}" for name, dtype, shape in zip(
                    node.attr["results"].list.s, types["OutT"], shapes))
                given = (f"{name} {dtype}" for name, dtype in zip(segments.given_to(self._made, node), types["InT"]))
                lines += [f"  takes {', '.join(given)}", f"  gives {', '.join(results)}",
                          f"  {len(node.attr['nodes'].list.s)} operators, "
                          f"{len(node.attr['profiles'].list.s)} profiles"]
            for line in lines:
                tell(line[:line_length])

    def _freeze(self, function, model):
        """Keeps of the signature its graph, with variables as constants, its tables, and what goes in and out: what
        TensorFlow holds of it are copies of all weights."""
        frozen = convert_variables_to_constants_v2(function, lower_control_flow=False)
        self._specs = function.structured_input_signature[1]
        self._structure = tensorflow.nest.map_structure(lambda tensor: tensor.name, function.structured_outputs)
        self._resources = resources.taken_by(frozen, function, model)
        beside = {each.node for each in self._resources}
        self._inputs = [Given(tensor.op.name, tensor.shape.as_list() if tensor.shape.rank is not None else [])
                        for tensor in frozen.inputs if tensor.op.name not in beside]
        self._outputs = [tensor.name for tensor in frozen.outputs]
        self._original = frozen.graph.as_graph_def()

    def _check_size(self, function):
        size = sum((variable.shape.num_elements() or 0) * variable.dtype.size for variable in function.variables)
        if size > MOST_BYTES:
            raise UnsupportedError(f"{self._folder} has weights of {size} bytes, and a graph that TensorFlow runs "
                                   "holds 2 GiB: `graft compile` and graft.compile() make an engine of the model")

    def _check_converted(self, verb):
        if self._made is None:
            raise InvalidArgumentError(f"{verb}() comes after convert()")

    def _embed(self, dims):
        outputs = [name.removesuffix(":0") for name in self._outputs]
        options = switches.merged(self._original, self._options)
        options["dims"] = {**dims, **(options.get("dims") or {})}
        made = embed(self._original, outputs, **options)
        graph = graph_pb2.GraphDef.FromString(made.model)
        for node in segments.engines_of(graph):
            node.attr["maximum_cached_engines"].i = self._most
        switches.tell(made.report, graph)
        self.report = self.report or made.report
        return graph

    def _wrap(self, graph_def, more=()):
        """The graph as a function with the structure of the signature; `more` are names of placeholders beside its."""
        inputs = [f"{name}:0" for name in (*(given.node for given in (*self._inputs, *self._resources)), *more)]
        return wrap_function.function_from_graph_def(graph_def, inputs, self._outputs)

    def _called_by_name(self, inner, more=()):
        """A function that takes what the signature does by its names; `more` gives what follows these."""
        def run(**tensors):
            taken = (tensors[name] for name in sorted(self._specs))
            results = inner(*taken, *(each.handle for each in self._resources), *(each.asset_path for each in more))
            return tensorflow.nest.pack_sequence_as(self._structure, tensorflow.nest.flatten(results))

        return tensorflow.function(run, autograph=False)

    def _with_assets(self, folder):
        """A module whose function takes the plans of engines from files, and that function."""
        graph = graph_pb2.GraphDef()
        graph.CopyFrom(self._made)
        names, module = [], tensorflow.Module()
        module.plans = []
        module.resources = [each.owner for each in self._resources if each.owner is not None]
        for number, node in enumerate(segments.engines_of(graph)):
            plans = list(node.attr["profiles"].list.s) + [node.attr["plan"].s]
            controls = [source for source in node.input if source.startswith("^")]
            data = [source for source in node.input if not source.startswith("^")]
            files = []
            for plan in filter(None, plans):
                # By content: another version of the model never takes the place of a plan that is in use.
                content = hashlib.sha256(plan).hexdigest()[:16]
                path = folder / f"{ASSET}-{number}-{len(files)}-{content}.graft"
                path.write_bytes(plan)
                module.plans.append(tensorflow.saved_model.Asset(str(path)))
                files.append(f"{ASSET.replace('-', '_')}_{number}_{len(files)}_file")
                holder = graph.node.add(name=files[-1], op="Placeholder")
                holder.attr["dtype"].type = tensorflow.string.as_datatype_enum
                holder.attr["shape"].shape.SetInParent()
            node.ClearField("input")
            node.input.extend(data + files + controls)
            node.attr["N"].i = len(files)
            node.attr["plan"].s = b""
            node.attr["profiles"].list.ClearField("s")
            names += files
        inner = self._wrap(graph, names)
        module.run = self._called_by_name(inner, module.plans)
        return module, module.run.get_concrete_function(**self._specs)


def replace_files(made, target):
    """Moves the files of a SavedModel into the folder of another one, the graph last. Each takes the place of one of
    its name at once, so that a process that has the old one open keeps it."""
    files = sorted((each for each in made.rglob("*") if each.is_file()), key=lambda each: each.name == "saved_model.pb")
    for each in files:
        place = target / each.relative_to(made)
        place.parent.mkdir(parents=True, exist_ok=True)
        os.replace(each, place)


def shapes_of(example, names, where="input_fn"):
    """Shapes by name of what a signature is given: a dict, or values in the order of the names."""
    if not isinstance(example, (dict, list, tuple)):
        raise InvalidArgumentError(f"{where} is a {type(example).__name__}: give a list, tuple or dict of the inputs")
    values = example if isinstance(example, dict) else dict(zip(names, example))
    if sorted(values) != sorted(names):
        raise InvalidArgumentError(f"{where} gives {', '.join(sorted(values)) or 'nothing'}; the signature takes "
                                   f"{', '.join(names)}")
    return {name: tuple(tensorflow.convert_to_tensor(value).shape.as_list()) for name, value in values.items()}
