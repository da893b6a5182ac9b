// SPDX-License-Identifier: Apache-2.0
// Tiles of operands on their way into shared memory: by asynchronous copies of 16-byte pieces, whose addresses each
// thread computes once, or element by element for what is no plain load of contiguous memory.
#include "codegen/cuda/kernel_writer.h"

namespace graft::cuda {
namespace {

/// C++ for the line and column of a piece of 16 bytes.
std::pair<std::string, std::string> position_of_piece(const Operand& operand) {
  const int in_line = operand.line_pieces(), vector = operand.vector();
  if (!operand.swizzle) {
    return {fmt::format("piece / {}", in_line), fmt::format("piece % {} * {}", in_line, vector)};
  }
  const int block = operand.lines * in_line;
  const std::string first = operand.pieces() == block ? "" : fmt::format("piece / {} * {} + ", block, in_line * vector);
  return {fmt::format("piece / {} % {}", in_line, operand.lines),
          fmt::format("{}piece % {} * {}", first, in_line, vector)};
}

/// C++ for the bytes from the tile's beginning to a piece.
std::string place_of_piece(const Operand& operand) {
  const int in_line = operand.line_pieces();
  if (!operand.swizzle) {
    const int line_bytes = operand.leading * bit_width(operand.type) / 8;
    return fmt::format("piece / {0} * {1} + piece % {0} * 16", in_line, line_bytes);
  }
  // The swizzles of wgmma: the pieces of a line change places by the number of the line.
  const int lines = 8 / in_line;
  return fmt::format("piece / {0} * {1} + ((piece % {0}) ^ (piece / {2} % {0})) * 16", in_line, operand.swizzle,
                     in_line * lines);
}

const std::vector<tile::Axis>& line_axes(const ContractPlan& plan, const Operand& operand) {
  if (!operand.along.empty()) return plan.contract->n;
  const bool is_a = &operand == &plan.a;
  if (is_a == operand.transposed) return plan.contract->k;
  return is_a ? plan.contract->m : plan.contract->n;
}
const std::vector<tile::Axis>& column_axes(const ContractPlan& plan, const Operand& operand) {
  if (!operand.along.empty()) return operand.along;
  const bool is_a = &operand == &plan.a;
  if (is_a != operand.transposed) return plan.contract->k;
  return is_a ? plan.contract->m : plan.contract->n;
}

bool changes(const Expr& e, const ContractPlan& plan) {
  for (const tile::For* loop : plan.loops) {
    if (uses_variable(e, loop->axis.variable->variable)) return true;
  }
  return false;
}

}  // namespace

int64_t tile_points(const std::vector<tile::Axis>& axes) {
  int64_t product = 1;
  for (const tile::Axis& axis : axes) product *= axis.bound;
  return product;
}

/// Writes a fragment to its place in shared memory, with zeros where k ends.
void KernelWriter::spill(const ContractPlan& plan, const Operand& operand) {
  const FragmentLayout& from = names_.fragments.at(operand.buffer);
  const std::string type = type_name(operand.type);
  code_.open("");
  expressions_.enter();
  code_.line("{0}* const to = ({0}*)(shared + {1});", type, operand.offset);
  code_.line("const i64 valid = {};", expressions_.value(plan.contract->k[0].extent));
  code_.line("#pragma unroll");
  code_.open(fmt::format("for (int h = 0; h < {}; ++h)", 2 * from.m_tiles));
  code_.line("#pragma unroll");
  code_.open(fmt::format("for (int p = 0; p < {}; ++p)", 2 * from.n_tiles));
  code_.line("const int row = {} + h / 2 * {} + h % 2 * 8;", from.first_row(), from.row_step());
  code_.line("const int column = {} + p / 2 * 8 + p % 2;", from.first_column());
  code_.line("to[row * {} + column] = column < valid ? {}[h / 2][p / 2][h % 2 * 2 + p % 2] : zero_of<{}>();",
             operand.leading, names_.buffers[operand.buffer], type);
  code_.close();
  code_.close();
  expressions_.leave();
  code_.close();
}

/// Declares, for each piece that a thread copies, its source, how many bytes of it there are, and the parts of the
/// condition that the loops do not change.
void KernelWriter::prepare_copies(const ContractPlan& plan, const Operand& operand) {
  if (operand.source != Operand::Source::kStaged || operand.copy_bytes == 0) return;
  const std::string type = type_name(operand.type), base = names_.buffers[operand.buffer];
  const int n = -operand.id, threads = copying_threads_, count = (operand.pieces() + threads - 1) / threads;
  std::string whole = fmt::format("(u64){} % {} == 0", base, operand.copy_bytes);
  for (const std::string& condition : operand.copy_conditions) whole += " && " + condition;
  code_.line("const bool whole{} = {};", n, whole);
  code_.line("const {}* from{}[{}];", type, n, count);
  code_.line("int bytes{}[{}];", n, count);
  const char* narrow = operand.guard_is_narrow ? "int" : "i64";
  for (size_t g = 0; g < operand.guards.named.size(); ++g) {
    const bool is_bool = operand.guards.named[g].first->type == DType::kBool;
    code_.line("{} guard{}_{}[{}];", is_bool ? "bool" : narrow, n, g, count);
  }
  code_.line("#pragma unroll");
  code_.open(fmt::format("for (int s = 0; s < {}; ++s)", count));
  expressions_.enter();
  const auto [line, column] = position_of_piece(operand);
  code_.line("const int piece = {} + s * {}, line = {}, column = {};", copying_thread_, threads, line, column);
  const std::vector<tile::Axis>&lines = line_axes(plan, operand), &columns = column_axes(plan, operand);
  name_points(names_, lines, "line"), name_points(names_, columns, "column");
  std::string inside = operand.pieces() % threads ? fmt::format("piece < {}", operand.pieces()) : "true";
  const auto within = [&](const std::vector<tile::Axis>& axes, int64_t points, const char* name) {
    for (const tile::Axis& axis : axes) {
      if ((axes.size() == 1 && as_integer(axis.extent) == points) || changes(axis.extent, plan)) continue;
      inside +=
          fmt::format(" && {} < {}", names_.variables.at(axis.variable->variable), expressions_.value(axis.extent));
    }
    if (axes.size() > 1 && tile_points(axes) < points) inside += fmt::format(" && {} < {}", name, tile_points(axes));
  };
  within(lines, operand.lines, "line"), within(columns, operand.columns, "column");
  // A last piece may be cut short; where the loops change the extent, they see to that.
  std::string bytes = "16";
  const tile::Axis& last = columns.back();
  const bool fixed = as_integer(last.extent) && *as_integer(last.extent) % operand.vector() == 0;
  if (!fixed && !changes(last.extent, plan)) {
    bytes = fmt::format("bytes_left<{}>({} - {})", type, expressions_.value(last.extent),
                        names_.variables.at(last.variable->variable));
  }
  code_.line("bytes{}[s] = {} ? {} : 0;", n, inside, bytes);
  for (size_t g = 0; g < operand.guards.named.size(); ++g) {
    const auto& [variable, value] = operand.guards.named[g];
    const bool is_bool = variable->type == DType::kBool;
    code_.line("guard{}_{}[s] = ({})({});", n, g, is_bool ? "bool" : narrow, expressions_.value(value));
    names_.variables[variable->variable] = fmt::format("guard{}_{}[s]", n, g);
  }
  for (const auto& [variable, value] : operand.atoms.named) {
    names_.variables[variable->variable] = expressions_.value(value);
  }
  Affine start = operand.address;
  for (const tile::For* loop : plan.loops) start.coefficients.erase(loop->axis.variable->variable);
  code_.line("from{}[s] = {} + ({});", n, base, names_.affine_text(start));
  expressions_.leave();
  code_.close();
}

/// The copies of one operand's tile into its slot; a wait and a barrier make them visible.
void KernelWriter::stage_copies(const ContractPlan& plan, const Operand& operand, const std::string& slot) {
  const int n = -operand.id, threads = copying_threads_, count = (operand.pieces() + threads - 1) / threads;
  Affine moved;
  for (const tile::For* loop : plan.loops) {
    const int variable = loop->axis.variable->variable;
    const Size step = operand.address.coefficient(variable);
    if (!step.is(0)) moved.coefficients.emplace(variable, step);
  }
  code_.line("u8* const to = shared + {} + {} * {};", operand.offset, slot, operand.slot_bytes());
  code_.line("const i64 moved = {};", names_.affine_text(moved));
  const std::vector<tile::Axis>&lines = line_axes(plan, operand), &columns = column_axes(plan, operand);
  const tile::Axis& last = columns.back();
  const bool ends_lines = lines.size() == 1 && changes(lines[0].extent, plan);
  const bool ends_columns = changes(last.extent, plan);
  if (ends_lines) code_.line("const i64 lines_left = {};", expressions_.value(lines[0].extent));
  if (ends_columns) code_.line("const i64 columns_left = {};", expressions_.value(last.extent));
  code_.line("#pragma unroll");
  code_.open(fmt::format("for (int s = 0; s < {}; ++s)", count));
  const auto [line, column] = position_of_piece(operand);
  code_.line("const int piece = {} + s * {};", copying_thread_, threads);
  if (operand.pieces() % threads) code_.line("if (piece >= {}) break;", operand.pieces());
  std::string present;
  for (size_t g = 0; g < operand.guards.named.size(); ++g) {
    names_.variables[operand.guards.named[g].first->variable] = fmt::format("guard{}_{}[s]", n, g);
  }
  if (operand.guard) present = plain_text(operand.guard, names_, operand.guard_is_narrow);
  if (ends_lines) present += fmt::format("{}({} < lines_left)", present.empty() ? "" : " && ", line);
  std::string bytes = fmt::format("bytes{}[s]", n);
  if (ends_columns) {
    bytes = fmt::format("(int)size_min(bytes{}[s], bytes_left<{}>(columns_left - ({})))", n, type_name(operand.type),
                        column);
  }
  if (!present.empty()) bytes = fmt::format("{} ? {} : 0", present, bytes);
  code_.line("copy_piece<{}>(to + ({}), from{}[s] + moved, {});", operand.copy_bytes, place_of_piece(operand), n,
             bytes);
  code_.close();
}

/// The same tile one element after the other, zero beyond the extents.
void KernelWriter::stage_elements(const ContractPlan& plan, const Operand& operand, const std::string& slot) {
  const std::string type = type_name(operand.type);
  const int vector = operand.vector();
  code_.line("u8* const to = shared + {} + {} * {};", operand.offset, slot, operand.slot_bytes());
  expressions_.enter();
  code_.line("#pragma unroll 1");
  code_.open(fmt::format("for (int piece = {}; piece < {}; piece += {})", copying_thread_, operand.pieces(),
                         copying_threads_));
  const auto [line, column] = position_of_piece(operand);
  code_.line("const int line = {}, first = {};", line, column);
  code_.line("Pack<{}, {}> values;", type, vector);
  code_.line("#pragma unroll");
  code_.open(fmt::format("for (int j = 0; j < {}; ++j)", vector));
  code_.line("const int column = first + j;");
  const std::vector<tile::Axis>&lines = line_axes(plan, operand), &columns = column_axes(plan, operand);
  name_points(names_, lines, "line"), name_points(names_, columns, "column");
  std::string inside = "true";
  const auto within = [&](const std::vector<tile::Axis>& axes, int64_t points, const char* name) {
    for (const tile::Axis& axis : axes) {
      if (axes.size() == 1 && as_integer(axis.extent) == points) continue;
      inside +=
          fmt::format(" && {} < {}", names_.variables.at(axis.variable->variable), expressions_.value(axis.extent));
    }
    if (axes.size() > 1 && tile_points(axes) < points) inside += fmt::format(" && {} < {}", name, tile_points(axes));
  };
  within(lines, operand.lines, "line"), within(columns, operand.columns, "column");
  code_.line("values.at[j] = zero_of<{}>();", type);
  code_.open(fmt::format("if ({})", inside));
  expressions_.enter();
  code_.line("values.at[j] = {};", expressions_.value(operand.value));
  expressions_.leave();
  code_.close();
  code_.close();
  code_.line("*(Pack<{}, {}>*)(to + ({})) = values;", type, vector, place_of_piece(operand));
  code_.close();
  // Asynchronous copies are seen by warpgroups as they are; a fence would wait for all that run ahead.
  if (plan.warpgroups) code_.line("show_to_warpgroups();");
  expressions_.leave();
}

/// Brings one operand's tile into its slot; its copies have been prepared.
void KernelWriter::stage(const ContractPlan& plan, const Operand& operand, const std::string& slot) {
  const std::string place = operand.slots == 1 ? "0" : slot;
  if (operand.copy_bytes == 0) {
    code_.open("");
    stage_elements(plan, operand, place);
    return code_.close();
  }
  code_.open(fmt::format("if (whole{})", -operand.id));
  expressions_.enter();
  stage_copies(plan, operand, place);
  expressions_.leave();
  code_.close();
  code_.open("else");
  stage_elements(plan, operand, place);
  code_.close();
}

}  // namespace graft::cuda
