# SPDX-License-Identifier: Apache-2.0
"""The functions of TF-TRT, with their names and parameters."""

from .. import _graft
from ..calibrating import INT8, Int8, finished, report_of
from ..compiling import choices_of
from ..embedding import embed
from ..engine import Engine
from ..errors import InvalidArgumentError, UnsupportedError
from ..logs import LOGGER
from . import segments, switches
from .library import load_library

PRECISIONS = {"FP32": "fp32", "FP16": "fp16", "INT8": INT8}
DEFAULT_WORKSPACE = 1 << 30


def create_inference_graph(input_graph_def, outputs, max_batch_size=1,
                           max_workspace_size_bytes=DEFAULT_WORKSPACE, precision_mode="FP32", minimum_segment_size=3,
                           is_dynamic_op=False, maximum_cached_engines=1, input_saved_model_dir=None,
                           input_saved_model_tags=None, input_saved_model_signature_key=None,
                           output_saved_model_dir=None, session_config=None, use_calibration=True, **options):
    """A frozen graph with engines for the parts that they can run, as a GraphDef; the given one is not changed.

    input_graph_def       a GraphDef, its bytes, or the path of a file with them
    outputs               outputs of the graph: nodes or tensors
    max_batch_size        the optimum of a placeholder's dynamic first axis; others run, too, larger ones included
    precision_mode        "FP32", "FP16" or "INT8", which gives a calibration graph: run it on samples, then hand it to
                          calib_graph_to_infer_graph
    use_calibration       False: the ranges of INT8 are those of the graph's FakeQuant nodes
    minimum_segment_size  fewest operators of an engine
    is_dynamic_op         False: engines are built here, for all dynamic sizes of the graph. True: for each new
                          combination of shapes in a run; an engine that cannot be built runs in TensorFlow, which is
                          counted, and with strict=True is an error of the run
    maximum_cached_engines  of a node with is_dynamic_op=True; if the cache is full, one engine for the new shapes and
                          those of the least recently used one replaces that

    Accepted and ignored: max_workspace_size_bytes (plans hold their memory), session_config (no session runs during
    the conversion). SavedModels are errors: use Converter. Further
    arguments are those of graft.embed: tune="full", exclude_ops=["Relu"], strict=True ..., and of INT8
    calibration_file="ranges.json" (if it has the ranges, the graph is of int8 at once; else they are written there),
    method="entropy", max_error=0.02, as for graft.quantize. INT8 takes all dynamic sizes, also with is_dynamic_op=True.
    """
    del session_config
    precision = precision_of(precision_mode)
    options = int8_options(precision, use_calibration, options)
    is_dynamic_op = is_dynamic_op and precision != INT8
    given = {"input_saved_model_dir": input_saved_model_dir, "input_saved_model_tags": input_saved_model_tags,
             "input_saved_model_signature_key": input_saved_model_signature_key,
             "output_saved_model_dir": output_saved_model_dir}
    for name, value in given.items():
        if value is not None:
            raise UnsupportedError(f"{name}: a SavedModel is converted by graft.tensorflow.Converter; here, freeze the "
                                   "graph and give its GraphDef")
    if max_workspace_size_bytes < 0 or max_batch_size < 1 or maximum_cached_engines < 1:
        raise InvalidArgumentError("max_batch_size and maximum_cached_engines are at least 1, and "
                                   "max_workspace_size_bytes not negative")
    from tensorflow.core.framework import graph_pb2  # pylint: disable=no-name-in-module
    load_library()
    fixed = options.get("shapes") or {}
    usual = {f"{name}_0": max_batch_size for name in open_batches(input_graph_def) if name not in fixed}
    usual.update(options.pop("usual", {}))
    chosen = switches.merged(input_graph_def, options) if hasattr(input_graph_def, "node") else options
    tell_copies(options.get("device", "cpu"))
    made = embed(input_graph_def, outputs, minimum_size=minimum_segment_size, precision=precision, usual=usual,
                 build=not is_dynamic_op, **chosen)
    graph = graph_pb2.GraphDef.FromString(made.model)
    if is_dynamic_op:
        original = graph_pb2.GraphDef.FromString(bytes_of(input_graph_def))
        for node in segments.engines_of(graph):
            leave_to_first_run(original, graph, node, maximum_cached_engines, {**chosen, "precision": precision})
    switches.tell(made.report, graph)
    return graph


BUILDS = ("device", "precision", "tune", "threads", "target", "disable", "record", "mode", "deadline")


def leave_to_first_run(original, graph, node, most, options):
    """An engine's node that builds engines for shapes when these come."""
    segments.add_function(original, graph, node, as_they_are=True)
    chosen = {"device": "cpu", "tune": "fast", "threads": 0, "target": None, "disable": (), "record": None,
              **{key: value for key, value in options.items() if key in BUILDS}}
    more = {key: chosen.pop(key) for key in ("mode", "deadline") if key in chosen}
    choices = choices_of(None, None, **chosen, options=more)
    node.attr["build"].list.s.extend(f"{key}={value}".encode() for key, value in choices)
    node.attr["fallback"].b = not options.get("strict", False)
    node.attr["maximum_cached_engines"].i = most


def bytes_of(model):
    """Of a GraphDef, its bytes, or the path of a file with them."""
    if hasattr(model, "SerializeToString"):
        return model.SerializeToString()
    if isinstance(model, (bytes, bytearray, memoryview)):
        return bytes(model)
    with open(model, "rb") as file:
        return file.read()


def tell_copies(device):
    """What a device with memory of its own means inside of a TensorFlow that knows only the processor's."""
    if device != "cpu":
        LOGGER.warning("engines on %s: TensorFlow's tensors lie in the host's memory, and are copied to the device and "
                       "back at the border of each engine", device)


def int8_options(precision, use_calibration, options):
    """The options of graft.embed for engines that learn, unless ranges are known or the graph's own."""
    chosen = Int8({**options, "precision": precision})
    if chosen.calibration is not None or chosen.learns_by_itself:
        raise InvalidArgumentError("calibration, calibration_iters: in TensorFlow a graph is calibrated by running it, "
                                   "and by calibration_input_fn of Converter.convert()")
    if precision == INT8 and use_calibration and options.get("activations") in (None, "static"):
        chosen.options["calibration_iters"] = 0
    del chosen.options["precision"]
    return chosen.options


def calib_graph_to_infer_graph(calibration_graph_def, is_dynamic_op=True):
    """The second step of INT8: the graph with engines of int8, as a GraphDef; the given one is not changed.

    calibration_graph_def  what create_inference_graph gave for "INT8", in this process, after it has run on samples
    is_dynamic_op          accepted and ignored: engines take all dynamic sizes

    The reports of the engines, with the measured error, are in the log at level INFO.
    """
    del is_dynamic_op
    load_library()
    graph = type(calibration_graph_def)()
    graph.CopyFrom(calibration_graph_def)
    finish_engines(graph)
    return graph


def is_learning(node):
    """Whether an engine's node is calibrated by its runs."""
    return bool(node.attr["calibration"].s) if "calibration" in node.attr else False


def withdraw_engines(graph):
    """Lets go of the engines that a graph for calibrating names."""
    for node in filter(is_learning, segments.engines_of(graph)):
        _graft.withdraw_engine(node.attr["calibration"].s.decode())


def finish_engines(graph):
    """Gives the nodes that learn their plans of int8, all or none of them, and returns the text of their reports."""
    nodes = list(filter(is_learning, segments.engines_of(graph)))
    if not nodes:
        if not segments.engines_of(graph):
            raise InvalidArgumentError("this graph has no engine: create_inference_graph with precision_mode='INT8' "
                                       "gives the graph to calibrate")
        return ""
    names = [node.attr["calibration"].s.decode() for node in nodes]
    handles = [_graft.find_engine(name) for name in names]
    if None in handles:
        raise InvalidArgumentError("this graph was calibrated in another process, or is converted already: "
                                   "create_inference_graph and the runs on samples have to be in this process; "
                                   "calibration_file= keeps the ranges for others")
    plans, reports = [], []
    for node, handle in zip(nodes, handles):
        try:
            engine = finished(Engine(handle))
        except InvalidArgumentError as error:
            raise InvalidArgumentError(f"{node.name}: {error}") from None
        plans.append(engine.to_bytes())
        reports.append(f"{node.name}:\n{report_of(engine)}\n")
    withdraw_engines(graph)
    for node, plan in zip(nodes, plans):
        node.attr["plan"].s = plan
        del node.attr["calibration"]
    LOGGER.info("%s", "".join(reports))
    return "".join(reports)


def precision_of(mode):
    """graft.embed's `precision` for a precision_mode of TF-TRT's."""
    name = str(mode).upper()
    if name not in PRECISIONS:
        raise InvalidArgumentError(f"precision_mode {mode!r} is none of FP32, FP16, INT8")
    return PRECISIONS[name]


def open_batches(graph_def):
    """The placeholders whose first axis is open."""
    for node in getattr(graph_def, "node", ()):
        shape = node.attr["shape"].shape if node.op == "Placeholder" and "shape" in node.attr else None
        if shape is not None and not shape.unknown_rank and shape.dim and shape.dim[0].size < 0:
            yield node.name
