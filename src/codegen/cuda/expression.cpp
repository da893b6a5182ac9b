// SPDX-License-Identifier: Apache-2.0
#include "codegen/cuda/expression.h"

namespace graft::cuda {
namespace {

/// Whether evaluating `e` where nothing asked for it could be noticed: it loads or checks an index.
bool must_stay_lazy(const Expr& e) {
  bool found = false;
  for_each(e, [&](const Expr& node) {
    found |= node->kind == ExprKind::kLoad || is_call(node, Intrinsic::kCheckIndex);
  });
  return found;
}

}  // namespace

const std::string* ExpressionWriter::find(const ExprNode* node) const {
  for (auto scope = scopes_.rbegin(); scope != scopes_.rend(); ++scope) {
    if (const auto it = scope->find(node); it != scope->end()) return &it->second;
  }
  return nullptr;
}

std::string ExpressionWriter::value(const Expr& e) {
  switch (e->kind) {
    case ExprKind::kConstant: return literal(*e);
    case ExprKind::kSize: return names_.size(e->size);
    case ExprKind::kVariable: {
      const std::string& name = names_.variables.at(e->variable);
      return e->type == DType::kInt64 ? "(i64)" + name : name;
    }
    default: break;
  }
  if (const std::string* known = find(e.get())) return *known;
  std::string text = compute(e);
  scopes_.back()[e.get()] = text;
  return text;
}

std::string ExpressionWriter::local(DType type, const std::string& text) {
  std::string name = code_.fresh("t");
  code_.line("const {} {} = {};", type_name(type), name, text);
  return name;
}

std::string ExpressionWriter::compute(const Expr& e) {
  if (e->kind == ExprKind::kLoad) return load(e);
  if (e->intrinsic == Intrinsic::kSelect) return select(e);
  return call(e);
}

std::string ExpressionWriter::load(const Expr& e) {
  const tile::Buffer& buffer = names_.buffer(e->tensor);
  const int bits = bit_width(e->type);
  if (bits >= 8) return local(e->type, element(e->tensor, e->args));
  std::string offset;
  for (size_t i = 0; i < e->args.size(); ++i) {
    const std::string index = value(e->args[i]);
    offset += fmt::format("{}{} * {}", i ? " + " : "", index, names_.size(names_.stride(e->tensor, i)));
  }
  if (offset.empty()) offset = "0";
  if (buffer.scope != tile::Scope::kGlobal) throw Unsupported{"elements narrower than a byte stay in global memory"};
  return local(e->type, fmt::format("load_packed<{}>((const u8*){}, {}, {})", type_name(e->type),
                                    names_.buffers[e->tensor], offset, bits));
}

std::string ExpressionWriter::element(int buffer, const std::vector<Expr>& indices) {
  if (names_.is_fragment(buffer)) {
    const std::string& position = names_.is_row_fragment(buffer) ? row_position_ : fragment_position_;
    if (position.empty()) {
      const std::string& name = names_.buffer(buffer).name;
      throw Unsupported{fmt::format("fragment '{}' is used outside a map over its elements", name)};
    }
    return names_.buffers[buffer] + position;
  }
  const bool shared = names_.buffer(buffer).scope == tile::Scope::kShared;
  if (bit_width(names_.buffer(buffer).type) < 8) {
    throw Unsupported{"stores of elements narrower than a byte are not supported in CUDA kernels yet"};
  }
  std::string offset;
  for (size_t i = 0; i < indices.size(); ++i) {
    const std::string index = value(indices[i]);
    const Size stride = names_.stride(buffer, i);
    if (stride.is(0)) continue;
    if (!offset.empty()) offset += " + ";
    offset += shared ? fmt::format("(int)({})", index) : index;
    if (stride.is(1)) continue;
    offset += " * " + (shared ? stride.to_string() : names_.size(stride));
  }
  return fmt::format("{}[{}]", names_.buffers[buffer], offset.empty() ? "0" : offset);
}

std::string ExpressionWriter::select(const Expr& e) {
  const std::string condition = value(e->args[0]);
  if (!must_stay_lazy(e->args[1]) && !must_stay_lazy(e->args[2])) {
    const std::string a = value(e->args[1]), b = value(e->args[2]);
    return local(e->type, intrinsic_text(Intrinsic::kSelect, e->type, {condition, a, b}));
  }
  const std::string name = code_.fresh("t");
  code_.line("{} {};", type_name(e->type), name);
  for (int branch = 1; branch <= 2; ++branch) {
    code_.open(branch == 1 ? fmt::format("if ({})", condition) : "else");
    enter();
    code_.line("{} = {};", name, value(e->args[branch]));
    leave();
    code_.close();
  }
  return name;
}

std::string ExpressionWriter::call(const Expr& e) {
  std::vector<std::string> args;
  for (const Expr& arg : e->args) args.push_back(value(arg));
  if (e->intrinsic == Intrinsic::kCast) {
    if (bit_width(e->type) < 8) {
      throw Unsupported{fmt::format("casts to {} are not supported in CUDA kernels yet", name_of(e->type))};
    }
    return local(e->type, fmt::format("convert<{}>({})", type_name(e->type), args[0]));
  }
  if (e->intrinsic == Intrinsic::kBitcast) {
    return local(e->type, fmt::format("bit_cast<{}>({})", type_name(e->type), args[0]));
  }
  return local(e->type, intrinsic_text(e->intrinsic, e->args[0]->type, args));
}

}  // namespace graft::cuda
