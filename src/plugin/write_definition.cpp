// SPDX-License-Identifier: Apache-2.0
#include "plugin/write_definition.h"

#include <algorithm>
#include <cctype>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/hash.h"
#include "base/printable.h"
#include "plugin/support_text.h"

namespace graft::plugin {
namespace {

/// A text between quotes in C++.
std::string quoted(const std::string& text) {
  std::string result = "\"";
  for (const char c : printable(text)) {
    if (c == '"' || c == '\\') result += '\\';
    result += c;
  }
  return result + '"';
}

/// A text in a comment of one line, which a backslash at its end would continue.
std::string remark(const std::string& text) { return printable(text) + (text.ends_with('\\') ? " ." : ""); }

class HeaderWriter {
 public:
  explicit HeaderWriter(const Definition& definition) : made_(definition) {
    for (const Dimension& dimension : definition.dimensions) {
      names_.emplace(dimension.symbol, Size::symbol("d." + dimension.identifier));
    }
  }

  std::string body() {
    tensors("inputs", made_.inputs);
    tensors("outputs", made_.outputs);
    dimensions();
    problem();
    output_extents();
    variants();
    workspaces();
    launches();
    return std::move(text_);
  }

 private:
  template <class... Args>
  void line(fmt::format_string<Args...> format, Args&&... args) {
    const std::string content = fmt::format(format, std::forward<Args>(args)...);
    text_ += (content.empty() ? "" : "  " + content) + "\n";
  }
  std::string size(const Size& size) const { return size.substitute(names_).to_string(); }

  void tensors(const char* name, const std::vector<Tensor>& tensors) {
    line("static const Tensor* {}() {{", name);
    line("  static constexpr Tensor kTensors[] = {{");
    for (const Tensor& tensor : tensors) {
      line("      {{{}, Type::{}, {}}},  // {}", quoted(tensor.name), type_word(tensor.type), tensor.shape.size(),
           remark(to_string(tensor.shape)));
    }
    line("  }};");
    line("  return kTensors;");
    line("}}");
    line("");
  }

  void dimensions() {
    line("/// The sizes that a run has: of type int64_t, or expressions of who asks.");
    line("template <class N>");
    line("struct Dimensions {{");
    for (const Dimension& dimension : made_.dimensions) line("  N {};", dimension.identifier);
    line("}};");
    line("/// `axis(input, number)`: the extent of an input.");
    line("template <class N, class Axis>");
    line("static Dimensions<N> dimensions(const Axis& axis) {{");
    line("  (void)axis;");
    line("  Dimensions<N> d{{}};");
    for (const Dimension& dimension : made_.dimensions) {
      const std::string value = dimension.input >= 0 ? fmt::format("axis({}, {})", dimension.input, dimension.axis)
                                                     : size(dimension.value);
      const char* const comment = dimension.counted >= 0 ? "  // the most: a run tells how many there are" : "";
      line("  d.{} = {};{}", dimension.identifier, value, comment);
    }
    line("  return d;");
    line("}}");
    const auto counts = [](const Dimension& each) { return each.counted >= 0; };
    if (std::any_of(made_.dimensions.begin(), made_.dimensions.end(), counts)) declare_counts();
    line("");
  }

  /// Makes expressions of who asks out of sizes that only a run knows.
  void declare_counts() {
    line("/// `declare(output, most)`: a size that a run writes as this output, an int32.");
    line("template <class N, class Declare>");
    line("static void declare_counts(Dimensions<N>& d, const Declare& declare) {{");
    for (const Dimension& dimension : made_.dimensions) {
      if (dimension.counted < 0) continue;
      line("  d.{0} = declare({1}, d.{0});", dimension.identifier, dimension.counted);
    }
    line("}}");
  }

  void problem() {
    line("/// Why it cannot run with these sizes, or null.");
    line("template <class Axis>");
    line("static const char* problem(const Dimensions<int64_t>& d, const Axis& axis) {{");
    line("  (void)d, (void)axis;");
    for (size_t i = 0; i < made_.inputs.size(); ++i) {
      const Tensor& input = made_.inputs[i];
      for (size_t a = 0; a < input.shape.size(); ++a) axis_check(input, static_cast<int>(i), static_cast<int>(a));
    }
    for (const Dimension& dimension : made_.dimensions) range_check(dimension);
    for (const RunCheck& check : made_.checks) {
      line("  if ({} {} 0) return {};", size(check.value), check.at_least_zero ? "<" : "!=", quoted(check.message));
    }
    line("  return nullptr;");
    line("}}");
    line("");
  }

  void axis_check(const Tensor& input, int number, int axis) {
    for (const Dimension& dimension : made_.dimensions) {
      if (dimension.input == number && dimension.axis == axis) return;  // it is what the dimension was read from
    }
    const Size& extent = input.shape[static_cast<size_t>(axis)];
    const std::string message = fmt::format("axis {} of input {} is not {}", axis, input.name, extent.to_string());
    line("  if (axis({}, {}) != {}) return {};", number, axis, size(extent), quoted(message));
  }

  void range_check(const Dimension& dimension) {
    const auto& [least, usual, most] = dimension.range;
    if (dimension.input < 0) return;
    if (least > 0) {
      line("  if (d.{} < {}) return {};", dimension.identifier, least,
           quoted(fmt::format("{} is less than {}", dimension.symbol, least)));
    }
    if (most > 0) {
      line("  if (d.{} > {}) return {};", dimension.identifier, most,
           quoted(fmt::format("{} is more than {}", dimension.symbol, most)));
    }
  }

  void output_extents() {
    line("template <class N>");
    line("static void output_extents(int output, const Dimensions<N>& d, N* extents) {{");
    line("  (void)d, (void)extents;");
    line("  switch (output) {{");
    for (size_t o = 0; o < made_.outputs.size(); ++o) {
      line("    case {}:", o);
      const Shape& shape = made_.outputs[o].shape;
      for (size_t a = 0; a < shape.size(); ++a) line("      extents[{}] = {};", a, size(shape[a]));
      line("      return;");
    }
    line("  }}");
    line("}}");
    line("");
  }

  void variants() {
    line("static constexpr int kVariants = {};", made_.variants.size());
    line("static const Variant* variants() {{");
    for (const Variant& variant : made_.variants) {
      if (variant.kernels.empty()) continue;
      line("  static constexpr KernelFacts kKernels_{}[] = {{", architecture_of(variant));
      for (const Kernel& kernel : variant.kernels) {
        line("      {{\"{}\", {}, {}, {}}},", kernel.name, kernel.threads, kernel.shared_bytes,
             kernel.blocks_per_multiprocessor);
      }
      line("  }};");
    }
    line("  static const Variant kVariantsOf[] = {{");
    for (const Variant& variant : made_.variants) variant_row(variant);
    line("  }};");
    line("  return kVariantsOf;");
    line("}}");
    line("");
  }

  void variant_row(const Variant& variant) {
    const std::string& architecture = architecture_of(variant);
    const std::string digits = architecture.substr(architecture.find('_') + 1);
    const int number = std::stoi(digits);
    const bool own = std::isdigit(static_cast<unsigned char>(digits.back())) == 0;
    const std::string bytes = constant_bytes(variant);
    const bool empty = variant.kernels.empty();
    line("      {{{}, {}, {}, {}, {}, {}, {}, {}, {}}},", number / 10, number % 10, own,
         empty ? "nullptr" : array_name(made_, variant, "cubin"),
         has_ptx(variant) ? array_name(made_, variant, "ptx") : "nullptr",
         bytes.empty() ? "nullptr" : array_name(made_, variant, "constants"), bytes.size(),
         empty ? "nullptr" : "kKernels_" + architecture, variant.kernels.size());
  }

  void workspaces() {
    for (const Variant& variant : made_.variants) {
      line("/// Where the memory between kernels begins in the workspace; gives its end.");
      line("static int64_t workspace_{}(const Dimensions<int64_t>& d, int64_t* offsets) {{", architecture_of(variant));
      line("  (void)d, (void)offsets;");
      line("  int64_t end = kStatusBytes;");
      for (size_t s = 0; s < variant.slots.size(); ++s) {
        std::string bytes;
        for (const Size& each : variant.slots[s].bytes) {
          bytes = bytes.empty() ? size(each) : fmt::format("max({}, {})", bytes, size(each));
        }
        line("  offsets[{}] = end;", s);
        line("  end += aligned({});", bytes);
      }
      line("  return end;");
      line("}}");
    }
    line("/// Bytes that a run needs on any of the GPUs.");
    line("static int64_t workspace_bytes(const Dimensions<int64_t>& d) {{");
    size_t most = 1;
    for (const Variant& variant : made_.variants) most = std::max(most, variant.slots.size());
    line("  int64_t offsets[{}] = {{}};", most);
    line("  int64_t bytes = 0;");
    for (const Variant& variant : made_.variants) {
      line("  bytes = max(bytes, workspace_{}(d, offsets));", architecture_of(variant));
    }
    line("  return bytes;");
    line("}}");
    line("");
  }

  static std::string address(const Argument& argument, const Variant& variant) {
    const auto part = [&](const std::string& whole) {
      return argument.offset == 0 ? whole : fmt::format("static_cast<const char*>({}) + {}", whole, argument.offset);
    };
    switch (argument.place) {
      case Place::kInput:
        return part(fmt::format("inputs[{}]", argument.index));
      case Place::kOutput:
        return part(fmt::format("outputs[{}]", argument.index));
      case Place::kWorkspace:
        return part(fmt::format("memory + offsets[{}]", argument.index));
      case Place::kConstant:
        break;
    }
    int64_t offset = argument.offset;
    for (int c = 0; c < argument.index; ++c) {
      offset += (variant.constants[static_cast<size_t>(c)].byte_count() + 255) / 256 * 256;
    }
    return fmt::format("kernels.constant({})", offset);
  }

  void launches() {
    line("/// Puts a run on a device into the stream. All memory is the device's, at multiples of 16 bytes.");
    line("static CUresult launch(const Kernels& kernels, const Dimensions<int64_t>& d, const void* const* inputs,");
    line("                       void* const* outputs, void* workspace, CUstream stream) {{");
    line("  switch (kernels.variant()) {{");
    for (size_t v = 0; v < made_.variants.size(); ++v) {
      line("    case {}: return launch_{}(kernels, d, inputs, outputs, workspace, stream);", v,
           architecture_of(made_.variants[v]));
    }
    line("  }}");
    line("  return CUDA_ERROR_NOT_FOUND;");
    line("}}");
    for (const Variant& variant : made_.variants) launches_of(variant);
  }

  void launches_of(const Variant& variant) {
    line("");
    line("static CUresult launch_{}(const Kernels& kernels, const Dimensions<int64_t>& d, const void* const* inputs,",
         architecture_of(variant));
    line("    void* const* outputs, void* workspace, CUstream stream) {{");
    line("  (void)kernels, (void)d, (void)inputs, (void)outputs, (void)stream;");
    line("  int64_t offsets[{}] = {{}};", std::max<size_t>(1, variant.slots.size()));
    line("  workspace_{}(d, offsets);", architecture_of(variant));
    line("  char* const memory = static_cast<char*>(workspace);");
    line("  void* status = memory;");
    line("  (void)status;");
    for (const Launch& launch : variant.launches) launch_of(launch, variant);
    for (const Copy& copy : variant.copies) {
      line("  {{");
      line("    const CUresult result = cuMemcpyDtoDAsync(reinterpret_cast<CUdeviceptr>(outputs[{}]),", copy.output);
      line("        reinterpret_cast<CUdeviceptr>({}), static_cast<size_t>({}), stream);",
           address(copy.from, variant), size(copy.bytes));
      line("    if (result != CUDA_SUCCESS) return result;");
      line("  }}");
    }
    line("  return CUDA_SUCCESS;");
    line("}}");
  }

  void launch_of(const Launch& launch, const Variant& variant) {
    const Kernel& kernel = variant.kernels[static_cast<size_t>(launch.kernel)];
    std::vector<std::string> names;
    line("  {{  // {}", remark(launch.comment));
    for (size_t a = 0; a < launch.arguments.size(); ++a) {
      line("    const void* b{} = {};", a, address(launch.arguments[a], variant));
      names.push_back(fmt::format("&b{}", a));
    }
    for (size_t s = 0; s < kernel.sizes.size(); ++s) {
      const auto stored = kernel.stored.find(kernel.sizes[s]);
      if (stored != kernel.stored.end()) {
        line("    const void* s{} = {};", s, address(stored->second, variant));
      } else {
        line("    int64_t s{} = {};", s, size(Size::symbol(kernel.sizes[s])));
      }
      names.push_back(fmt::format("&s{}", s));
    }
    line("    void* arguments[] = {{{}, &status}};", fmt::join(names, ", "));
    line("    const CUresult result = kernels.launch({}, {}, arguments, stream);", launch.kernel, size(launch.grid));
    line("    if (result != CUDA_SUCCESS) return result;");
    line("  }}");
  }

  const Definition& made_;
  std::map<std::string, Size, std::less<>> names_;
  std::string text_;
};

}  // namespace

std::string type_word(DType type) { return type == DType::kBool ? "boolean" : std::string(name_of(type)); }

std::string array_name(const Definition& definition, const Variant& variant, const std::string& kind) {
  return fmt::format("{}_{}_{}", definition.name, architecture_of(variant), kind);
}

bool has_ptx(const Variant& variant) {
  return !variant.kernels.empty() &&
         std::isdigit(static_cast<unsigned char>(architecture_of(variant).back())) != 0;
}

std::string constant_bytes(const Variant& variant) {
  std::string bytes;
  for (const TensorData& constant : variant.constants) {
    const auto own = constant.bytes();
    bytes.append(reinterpret_cast<const char*>(own.data()), own.size());
    bytes.resize((bytes.size() + 255) / 256 * 256);
  }
  return bytes;
}

std::string identity_of(const Definition& definition) {
  Definition unnamed = definition;
  unnamed.name = "P";
  // Names of tensors and nodes are the model's; what is computed does not depend on them.
  for (size_t i = 0; i < unnamed.inputs.size(); ++i) unnamed.inputs[i].name = fmt::format("input {}", i);
  for (size_t i = 0; i < unnamed.outputs.size(); ++i) unnamed.outputs[i].name = fmt::format("output {}", i);
  std::string text;
  for (Variant& variant : unnamed.variants) {
    std::string source = variant.source;
    for (Kernel& kernel : variant.kernels) {
      for (size_t at; (at = source.find(kernel.name)) != source.npos;) source.replace(at, kernel.name.size(), "k");
      kernel.name = "k";
    }
    text += source + constant_bytes(variant);
  }
  text += HeaderWriter(unnamed).body();
  return hash128(text).to_string();
}

std::string definition_header(const Definition& definition, const std::string& heading) {
  std::string text = heading + "#pragma once\n\n" + include_line("\"graft_kernels.h\"");
  std::string arrays;
  for (const Variant& variant : definition.variants) {
    const auto declare = [&](const std::string& kind) {
      arrays += fmt::format("extern const unsigned char {}[];\n", array_name(definition, variant, kind));
    };
    if (!variant.kernels.empty()) declare("cubin");
    if (has_ptx(variant)) declare("ptx");
    if (!variant.constants.empty()) declare("constants");
  }
  if (!arrays.empty()) text += "\nextern \"C\" {\n" + arrays + "}\n";
  text += fmt::format("\nnamespace graft_made {{\n\n/// {}.\nstruct {}_plugin {{\n",
                      printable(fmt::format("{}", fmt::join(definition.operators, ", "))), definition.name);
  text += fmt::format("  static constexpr char kName[] = \"{}\";\n", definition.name);
  text += fmt::format("  static constexpr char kIdentity[] = \"{}\";\n", identity_of(definition));
  const auto counts = std::count_if(definition.dimensions.begin(), definition.dimensions.end(),
                                    [](const Dimension& each) { return each.counted >= 0; });
  text += fmt::format("  static constexpr int kInputs = {}, kOutputs = {}, kCounts = {};\n\n",
                      definition.inputs.size(), definition.outputs.size(), counts);
  text += HeaderWriter(definition).body();
  return text + "};\n\n}  // namespace graft_made\n";
}

std::string kernel_source(const Definition& definition, const Variant& variant, const std::string& heading) {
  std::string text = heading + fmt::format("// The kernels for {}. nvcc -cubin -arch={} compiles them.\n",
                                           architecture_of(variant), architecture_of(variant)) +
                     include_line("\"graft_device.cuh\"") + "\n";
  for (const Launch& launch : variant.launches) {
    text += fmt::format("// {}_{}: {}\n", definition.name, launch.kernel, remark(launch.comment));
  }
  return text + "\n" + variant.source;
}

}  // namespace graft::plugin
