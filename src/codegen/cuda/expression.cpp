// SPDX-License-Identifier: Apache-2.0
#include "codegen/cuda/expression.h"

#include <algorithm>
#include <bit>
#include <cstdlib>

namespace graft::cuda {
namespace {

/// Whether evaluating `e` where nothing asked for it could be noticed: it loads or checks.
bool must_stay_lazy(const Expr& e) {
  bool found = false;
  for_each(e, [&](const Expr& node) { found |= node->kind == ExprKind::kLoad || is_check(*node); });
  return found;
}

/// The exponent when `e` is a constant power of two, else -1.
int power_of_two(const Expr& e) {
  const auto value = as_integer(e);
  if (!value || *value <= 0 || (*value & (*value - 1)) != 0) return -1;
  return std::countr_zero(static_cast<uint64_t>(*value));
}

/// `x op y` over ints whose result fits an int.
std::string narrow_text(Intrinsic intrinsic, const std::vector<std::string>& args, bool non_negative) {
  switch (intrinsic) {
    case Intrinsic::kAdd:
      return fmt::format("{} + {}", args[0], args[1]);
    case Intrinsic::kSub:
      return fmt::format("{} - {}", args[0], args[1]);
    case Intrinsic::kMul:
      return fmt::format("{} * {}", args[0], args[1]);
    case Intrinsic::kFloorDiv:
    case Intrinsic::kDiv:
      if (non_negative) return fmt::format("(int)((u32){} / (u32){})", args[0], args[1]);
      break;
    case Intrinsic::kMod:
    case Intrinsic::kRem:
      if (non_negative) return fmt::format("(int)((u32){} % (u32){})", args[0], args[1]);
      break;
    default:
      break;
  }
  return intrinsic_text(intrinsic, DType::kInt32, args);
}

/// Whether the value is one for all points of a kernel.
bool is_one_for_all(const Expr& e) {
  if (e->kind == ExprKind::kConstant) return true;
  return e->kind == ExprKind::kLoad && e->args.empty();
}

}  // namespace

const ExpressionWriter::Term* ExpressionWriter::find(const ExprNode* node) const {
  for (auto scope = scopes_.rbegin(); scope != scopes_.rend(); ++scope) {
    if (const auto it = scope->find(node); it != scope->end()) return &it->second;
  }
  return nullptr;
}

std::string ExpressionWriter::widened(const Term& term, const Expr& e) {
  if (!term.narrow) return term.text;
  return e->kind == ExprKind::kConstant ? literal(*e) : "(i64)" + term.text;
}

std::string ExpressionWriter::value(const Expr& e) { return widened(term(e), e); }

ExpressionWriter::Term ExpressionWriter::term(const Expr& e) {
  switch (e->kind) {
    case ExprKind::kConstant: {
      if (e->type != DType::kInt64) return {literal(*e), {}, false};
      const Range range{e->integer, e->integer};
      if (!range.fits_int() || e->integer == INT32_MIN) return {literal(*e), range, false};
      return {e->integer < 0 ? fmt::format("({})", e->integer) : std::to_string(e->integer), range, true};
    }
    case ExprKind::kSize:
      return {names_.size(e->size), {}, false};
    case ExprKind::kVariable: {
      const std::string& name = names_.variables.at(e->variable);
      const auto range = names_.ranges.find(e->variable);
      if (range != names_.ranges.end()) return {name, range->second, true};
      return {e->type == DType::kInt64 ? "(i64)" + name : name, {}, false};
    }
    default:
      break;
  }
  if (const Term* known = find(e.get())) return *known;
  Term made = compute(e);
  scopes_.back()[e.get()] = made;
  return made;
}

std::string ExpressionWriter::local(DType type, const std::string& text) {
  std::string name = code_.fresh("t");
  code_.line("const {} {} = {};", type_name(type), name, text);
  return name;
}

/// An i64 in the narrowest variable.
ExpressionWriter::Term ExpressionWriter::local_index(const Range& range, const std::string& text) {
  if (!range.fits_int()) return {local(DType::kInt64, text), range, false};
  return {local(DType::kInt32, text), range, true};
}

ExpressionWriter::Term ExpressionWriter::compute(const Expr& e) {
  if (e->kind == ExprKind::kLoad) return {load(e), {}, false};
  if (e->intrinsic == Intrinsic::kSelect) return select(e);
  if (const auto narrow = narrow_spelling(e, names_.narrow_results)) {
    return narrow_call(narrow->function, narrow->args);
  }
  if (const auto quantized = quantized_value(e)) return quantize(e->type, *quantized);
  if (const Expr integer = short_integer(e)) return float_of_short(integer);
  return call(e);
}

ExpressionWriter::Term ExpressionWriter::narrow_call(std::string_view function, const std::vector<Expr>& args) {
  std::vector<std::string> texts;
  for (const Expr& arg : args) texts.push_back(value(arg));
  return {local(DType::kFloat32, fmt::format("{}({})", function, fmt::join(texts, ", "))), {}, false};
}

/// The arguments of `quantized`: a quotient by what is one for all points has a quantizer, computed once.
ExpressionWriter::Quantizing ExpressionWriter::to_quantize(DType type, const QuantizedValue& quantized) {
  const Expr& e = quantized.value;
  const std::string zero = quantized.zero ? value(quantized.zero) : "";
  const std::string last = zero.empty() ? "" : ", " + zero;
  const bool divides = is_call(e, Intrinsic::kDiv) && is_one_for_all(e->args[1]) && !find(e.get()) &&
                       !narrow_spelling(e, names_.narrow_results);
  const bool one_zero = !quantized.zero || is_one_for_all(quantized.zero->args[0]);
  if (!divides || !one_zero) return {value(e) + last, false};
  const std::string dividend = value(e->args[0]), scale = value(e->args[1]);
  const std::string of = zero.empty() ? "0.0f" : zero;
  return {fmt::format("{}, quantizer<{}>({}, {}){}", dividend, type_name(type), scale, of, last), true};
}

ExpressionWriter::Term ExpressionWriter::quantize(DType type, const QuantizedValue& quantized) {
  if (!quantized.zero) {
    if (const Expr integers = on_integers(quantized.value, type)) return term(integers);
  }
  const std::string arguments = to_quantize(type, quantized).arguments;
  return {local(type, fmt::format("quantized<{}>({})", type_name(type), arguments)), {}, false};
}

/// Codes, and such that are put to bounds, need not become integers.
std::string ExpressionWriter::byte_word(const Expr& e) {
  const auto quantized = find(e.get()) ? std::nullopt : quantized_value(e);
  const Expr integers = quantized && !quantized->zero ? on_integers(quantized->value, e->type) : Expr();
  if (integers) return byte_word(integers);
  const std::string type = type_name(e->type);
  if (const auto bounded = bounded_code(e); bounded && !find(bounded->code.get())) {
    const QuantizedValue inner = *quantized_value(bounded->code);
    const auto [arguments, divides] = to_quantize(e->type, inner);
    const bool all = bounded->low == lowest_code(e->type) && bounded->high == lowest_code(e->type) + 255;
    if (divides && all) return fmt::format("code_word<{}>({})", type, arguments);
    if (!divides) {
      const std::string zero = inner.zero ? "" : ", 0.0f";
      return fmt::format("code_word<{}>({}{}, {}.0f, {}.0f)", type, arguments, zero, bounded->low, bounded->high);
    }
  }
  return fmt::format("(u32){}", value(e));
}

/// What is quantized and widened again need not become an integer.
ExpressionWriter::Term ExpressionWriter::float_of_short(const Expr& e) {
  const Term* known = find(e.get());
  if (known && !known->as_float.empty()) return {local(DType::kFloat32, known->as_float), {}, false};
  const auto quantized = known ? std::nullopt : quantized_value(e);
  if (!quantized) return {local(DType::kFloat32, fmt::format("short_float({})", value(e))), {}, false};
  const std::string text = to_quantize(e->type, *quantized).arguments;
  return {local(DType::kFloat32, fmt::format("quantized_float<{}>({})", type_name(e->type), text)), {}, false};
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
  if (bit_width(names_.buffer(buffer).type) < 8) {
    throw Unsupported{"stores of elements narrower than a byte are not supported in CUDA kernels yet"};
  }
  return fmt::format("{}[{}]", names_.buffers[buffer], offset_of(buffer, indices));
}

/// The number of an element: what is affine in one sum, the other indices times their strides.
std::string ExpressionWriter::offset_of(int buffer, const std::vector<Expr>& indices) {
  const bool shared = names_.buffer(buffer).scope == tile::Scope::kShared;
  std::vector<std::string> wide, narrow;  // terms; of those that are summed in an int
  if (names_.padded.contains(buffer)) {
    const int64_t piece = 128 / bit_width(names_.buffer(buffer).type);
    narrow.push_back(fmt::format("(int)({}) / {} * {}", value(indices.back()), piece, piece));
  }
  Affine plain;
  for (size_t i = 0; i < indices.size(); ++i) {
    const Size stride = names_.stride(buffer, i);
    if (stride.is(0)) continue;
    const auto index = affine(indices[i]);
    if (index && !find(indices[i].get())) {
      plain.offset = plain.offset + index->offset * stride;
      for (const auto& [variable, coefficient] : index->coefficients) {
        Size& sum = plain.coefficients.try_emplace(variable, 0).first->second;
        sum = sum + coefficient * stride;
      }
      continue;
    }
    const Term each = term(indices[i]);
    const auto step = stride.as_constant();
    const int64_t reach = std::max(std::abs(each.range.low / 2), std::abs(each.range.high / 2)) + 1;
    const bool fits = each.narrow && step && *step <= INT32_MAX / 16 / reach;
    std::string text = each.text;
    if (shared && !fits) text = fmt::format("(int)({})", text);
    if (!shared && each.narrow && !fits) text = "(i64)" + text;
    if (!stride.is(1)) text += " * " + (shared || fits ? stride.to_string() : names_.size(stride));
    (shared || fits ? narrow : wide).push_back(text);
  }
  std::erase_if(plain.coefficients, [](const auto& entry) { return entry.second.is(0); });
  if (!plain.coefficients.empty() || !plain.offset.is(0)) {
    const std::string text = names_.affine_text(plain);
    if (shared) narrow.insert(narrow.begin(), fmt::format("(int)({})", text));
    if (!shared) wide.insert(wide.begin(), wide.empty() && narrow.empty() ? text : fmt::format("(i64)({})", text));
  }
  if (wide.empty()) return narrow.empty() ? "0" : fmt::format("{}", fmt::join(narrow, " + "));
  if (narrow.size() > 1) narrow = {fmt::format("({})", fmt::join(narrow, " + "))};
  wide.insert(wide.end(), narrow.begin(), narrow.end());
  return fmt::format("{}", fmt::join(wide, " + "));
}

ExpressionWriter::Term ExpressionWriter::select(const Expr& e) {
  const std::string condition = value(e->args[0]);
  const bool index = e->type == DType::kInt64;
  if (!must_stay_lazy(e->args[1]) && !must_stay_lazy(e->args[2])) {
    const Term a = term(e->args[1]), b = term(e->args[2]);
    const Range range = index ? range_of(Intrinsic::kSelect, {{}, a.range, b.range}) : Range{};
    if (a.narrow && b.narrow) {
      return local_index(range, intrinsic_text(Intrinsic::kSelect, e->type, {condition, a.text, b.text}));
    }
    const std::vector<std::string> args{condition, widened(a, e->args[1]), widened(b, e->args[2])};
    const std::string text = intrinsic_text(Intrinsic::kSelect, e->type, args);
    if (index) return local_index(range, text);
    return {local(e->type, text), {}, false};
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
  return {name, {}, false};
}

ExpressionWriter::Term ExpressionWriter::call(const Expr& e) {
  std::vector<Term> terms;
  bool narrow = true, indices = true;
  for (const Expr& arg : e->args) {
    terms.push_back(term(arg));
    narrow &= terms.back().narrow;
    indices &= arg->type == DType::kInt64;
  }
  std::vector<Range> ranges;
  std::vector<std::string> texts, wide;
  for (size_t i = 0; i < terms.size(); ++i) {
    ranges.push_back(terms[i].range);
    texts.push_back(terms[i].text);
    wide.push_back(widened(terms[i], e->args[i]));
  }
  if (e->intrinsic == Intrinsic::kCast) {
    if (bit_width(e->type) < 8) {
      throw Unsupported{fmt::format("casts to {} are not supported in CUDA kernels yet", name_of(e->type))};
    }
    return {local(e->type, fmt::format("convert<{}>({})", type_name(e->type), texts[0])), {}, false};
  }
  if (e->intrinsic == Intrinsic::kBitcast) {
    return {local(e->type, fmt::format("bit_cast<{}>({})", type_name(e->type), wide[0])), {}, false};
  }
  if (!indices) return {local(e->type, intrinsic_text(e->intrinsic, e->args[0]->type, wide)), {}, false};
  for (size_t i = 0; i < 2 && e->intrinsic == Intrinsic::kEq && !narrow; ++i) {
    if (!terms[i].narrow || terms[i].range.low < 0) continue;
    return {local(e->type, fmt::format("{} == int_or_negative({})", texts[i], wide[1 - i])), {}, false};
  }
  if (e->type != DType::kInt64) {
    const std::string text = intrinsic_text(e->intrinsic, DType::kInt64, narrow ? texts : wide);
    return {local(e->type, text), {}, false};
  }
  const Range range = range_of(e->intrinsic, ranges);
  const bool divides = e->intrinsic == Intrinsic::kFloorDiv || e->intrinsic == Intrinsic::kMod;
  if (const int power = divides ? power_of_two(e->args[1]) : -1; power >= 0) {
    const bool fits = narrow && range.fits_int();
    const std::string& operand = fits ? texts[0] : wide[0];
    return local_index(range, e->intrinsic == Intrinsic::kFloorDiv
                                  ? fmt::format("{} >> {}", operand, power)
                                  : fmt::format("{} & {}ll", operand, (int64_t{1} << power) - 1));
  }
  if (narrow && range.fits_int()) {
    const bool non_negative = ranges.size() == 2 && ranges[0].low >= 0 && ranges[1].low > 0;
    return local_index(range, narrow_text(e->intrinsic, texts, non_negative));
  }
  return local_index(range, intrinsic_text(e->intrinsic, DType::kInt64, wide));
}

}  // namespace graft::cuda
