// SPDX-License-Identifier: Apache-2.0
#include "base/tensor_data.h"

#include <sys/mman.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <mutex>
#include <new>

#include <fmt/format.h>

#include "base/convert.h"
#include "base/error.h"
#include "base/run_limits.h"

namespace graft {
namespace {

constexpr int64_t kAlignment = 64;

/// From here on pages come from the system itself, as zeros that are made when they are touched.
constexpr int64_t kOwnPages = int64_t{32} << 20;

void* allocate_zeros(int64_t bytes) {
  const auto size = static_cast<size_t>(bytes);
  if (bytes < kOwnPages) {
    void* memory = std::aligned_alloc(kAlignment, size);
    return memory ? std::memset(memory, 0, size) : nullptr;
  }
  void* memory = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  return memory == MAP_FAILED ? nullptr : memory;
}

void free_zeros(void* memory, int64_t bytes) {
  if (bytes < kOwnPages) {
    std::free(memory);
  } else {
    munmap(memory, static_cast<size_t>(bytes));
  }
}

/// Zeroed memory with the alignment that kernels like, out of the thread's budget; throws out_of_memory rather than
/// std::bad_alloc.
std::shared_ptr<std::byte> allocate(size_t size) {
  constexpr std::string_view kWhat = "a tensor";
  const int64_t bytes = checked_aligned(std::max<int64_t>(static_cast<int64_t>(size), 1), kAlignment, kWhat);
  const std::shared_ptr<MemoryBudget> budget = current_budget();
  if (budget) budget->take(bytes, kWhat);
  void* memory = bytes <= machine_memory() ? allocate_zeros(bytes) : nullptr;
  if (!memory) {
    if (budget) budget->give(bytes);
    throw_no_memory(bytes, kWhat);
  }
  return {static_cast<std::byte*>(memory), [budget, bytes](std::byte* p) {
            free_zeros(p, bytes);
            if (budget) budget->give(bytes);
          }};
}

template <class T>
T load(const std::byte* data, int64_t index) {
  T value;
  std::memcpy(&value, data + index * static_cast<int64_t>(sizeof(T)), sizeof(T));
  return value;
}

/// The bits of one element of at most 64 bits.
uint64_t read_bits(const std::byte* data, int width, int64_t index) {
  switch (width) {
    case 64:
      return load<uint64_t>(data, index);
    case 32:
      return load<uint32_t>(data, index);
    case 16:
      return load<uint16_t>(data, index);
    case 8:
      return load<uint8_t>(data, index);
    default: {
      const int64_t bit = index * width;
      return (std::to_integer<uint64_t>(data[bit / 8]) >> (bit % 8)) & ((1u << width) - 1);
    }
  }
}

void write_bits(std::byte* data, int width, int64_t index, uint64_t bits) {
  if (width >= 8) {
    std::memcpy(data + index * (width / 8), &bits, static_cast<size_t>(width / 8));
    return;
  }
  const int64_t bit = index * width;
  const unsigned mask = ((1u << width) - 1) << (bit % 8);
  const unsigned kept = std::to_integer<unsigned>(data[bit / 8]) & ~mask;
  data[bit / 8] = static_cast<std::byte>(kept | ((static_cast<unsigned>(bits) << (bit % 8)) & mask));
}

static_assert(std::endian::native == std::endian::little, "tensors are kept little-endian");

bool is_numeric(DType type) {
  const DTypeKind kind = kind_of(type);
  return kind != DTypeKind::kOpaque && kind != DTypeKind::kComplex;
}

double bits_to_double(DType type, uint64_t bits) {
  if (is_float(type)) return decode_float(type, bits);
  return integer_to_double(type, wrap_integer(type, static_cast<int64_t>(bits)));
}

int64_t bits_to_integer(DType type, uint64_t bits) {
  if (is_float(type)) return double_to_integer(DType::kInt64, decode_float(type, bits));
  return wrap_integer(type, static_cast<int64_t>(bits));
}

uint64_t double_to_bits(DType type, double value) {
  return is_float(type) ? encode_float(type, value) : static_cast<uint64_t>(double_to_integer(type, value));
}

uint64_t integer_to_bits(DType type, int64_t value) {
  if (is_float(type)) return encode_float(type, static_cast<double>(value));
  return type == DType::kBool ? value != 0 : static_cast<uint64_t>(value);
}

/// Copies with the conversion of static_cast, for the types where that is exact or C++'s own rounding.
template <class From, class To>
void copy_as(const std::byte* from, int64_t first, std::span<To> to) {
  const From* source = reinterpret_cast<const From*>(from) + first;
  for (size_t i = 0; i < to.size(); ++i) to[i] = static_cast<To>(source[i]);
}

template <class To, class From>
void copy_into(std::span<const From> from, std::byte* to, int64_t first) {
  To* target = reinterpret_cast<To*>(to) + first;
  for (size_t i = 0; i < from.size(); ++i) target[i] = static_cast<To>(from[i]);
}

void check_range(const TensorData& tensor, int64_t first, size_t count) {
  GRAFT_CHECK(is_numeric(tensor.type()), "elements of " + std::string(name_of(tensor.type())) + " are not numbers");
  GRAFT_CHECK(first >= 0 && static_cast<int64_t>(count) <= tensor.element_count() - first,
              fmt::format("element {} is read or written beyond {}", first, describe(tensor)));
}

}  // namespace

int64_t checked_element_count(DType type, std::span<const int64_t> shape, const std::string& where) {
  int64_t count = 1, bits = 0;
  bool empty = false, overflow = false;
  for (const int64_t extent : shape) {
    GRAFT_USER_CHECK(extent >= 0, kInvalidArgument, fmt::format("the extent {} is negative", extent), where);
    empty |= extent == 0;
    overflow |= __builtin_mul_overflow(count, extent == 0 ? 1 : extent, &count);
  }
  overflow = overflow || __builtin_mul_overflow(count, std::max(bit_width(type), 8), &bits);
  GRAFT_USER_CHECK(empty || !overflow, kInvalidArgument,
                   fmt::format("the shape [{}] has more bytes than memory can", fmt::join(shape, ", ")), where);
  return empty ? 0 : count;
}

TensorData::TensorData(DType type, std::vector<int64_t> shape) : type_(type), shape_(std::move(shape)) {
  GRAFT_CHECK(type != DType::kUndefined, "a tensor needs an element type");
  count_ = checked_element_count(type, shape_);
  if (type == DType::kString) {
    strings_ = std::make_shared<std::vector<std::string>>();
  } else {
    size_ = static_cast<size_t>(packed_bytes(type, count_));
  }
}

TensorData TensorData::zeros(DType type, std::vector<int64_t> shape) {
  TensorData result(type, std::move(shape));
  if (type == DType::kString) {
    result.strings_->resize(static_cast<size_t>(result.count_));
  } else {
    auto memory = allocate(result.size_);
    result.data_ = memory.get();
    result.owner_ = std::move(memory);
  }
  return result;
}

TensorData TensorData::from_strings(std::vector<int64_t> shape, std::vector<std::string> values) {
  TensorData result(DType::kString, std::move(shape));
  if (static_cast<size_t>(result.count_) != values.size()) {
    detail::throw_value_count(DType::kString, result.count_, values.size());
  }
  *result.strings_ = std::move(values);
  return result;
}

TensorData TensorData::borrow(DType type, std::vector<int64_t> shape, std::span<const std::byte> bytes,
                              std::shared_ptr<const void> keep_alive) {
  TensorData result(type, std::move(shape));
  GRAFT_USER_CHECK(type != DType::kString && bytes.size() == result.size_, kInvalidArgument,
                   fmt::format("{} has {} bytes, but {} are given", describe(result), result.size_, bytes.size()),
                   "tensor");
  result.data_ = bytes.data();
  result.owner_ = std::move(keep_alive);
  result.borrowed_ = true;
  const auto width = static_cast<uintptr_t>(std::max(std::min(bit_width(type), 64) / 8, 1));
  if (reinterpret_cast<uintptr_t>(bytes.data()) % width != 0) result.mutable_bytes();  // typed views need alignment
  return result;
}

TensorData TensorData::from_bytes(DType type, std::vector<int64_t> shape, std::span<const std::byte> bytes) {
  TensorData result = borrow(type, std::move(shape), bytes, nullptr);
  result.mutable_bytes();
  return result;
}

/// The bytes that copies of a deferred tensor share.
struct TensorData::Deferred {
  std::once_flag once;
  std::function<TensorData()> make;
  TensorData made;
};

TensorData TensorData::deferred(DType type, std::vector<int64_t> shape, std::function<TensorData()> make) {
  TensorData result(type, std::move(shape));
  GRAFT_CHECK(type != DType::kString, "strings are not deferred");
  result.deferred_ = std::make_shared<Deferred>();
  result.deferred_->make = std::move(make);
  return result;
}

std::span<const std::byte> TensorData::deferred_bytes() const {
  std::call_once(deferred_->once, [&] {
    const LimitScope nobodys(nullptr, nullptr);  // all copies share it, whichever run asks first
    deferred_->made = deferred_->make();
    deferred_->make = nullptr;
  });
  const TensorData& made = deferred_->made;
  GRAFT_CHECK(made.type_ == type_ && made.count_ == count_, describe(*this) + " was made as " + describe(made));
  return made.bytes();
}

bool TensorData::shares_bytes_with(const TensorData& other) const {
  if (type_ != other.type_ || size_ != other.size_ || type_ == DType::kString) return false;
  if (deferred_ || other.deferred_) return deferred_ == other.deferred_;
  return data_ == other.data_;
}

std::span<std::byte> TensorData::mutable_bytes() {
  if (size_ > 0 && (borrowed_ || deferred_ || owner_.use_count() != 1)) {
    auto memory = allocate(size_);
    std::memcpy(memory.get(), bytes().data(), size_);
    data_ = memory.get();
    owner_ = std::move(memory);
    borrowed_ = false;
    deferred_ = nullptr;
  }
  return {const_cast<std::byte*>(data_), size_};
}

const std::vector<std::string>& TensorData::strings() const {
  GRAFT_CHECK(strings_, "strings of " + describe(*this));
  return *strings_;
}

std::vector<std::string>& TensorData::mutable_strings() {
  if (strings().size() && strings_.use_count() != 1) strings_ = std::make_shared<std::vector<std::string>>(*strings_);
  return *strings_;
}

void TensorData::check_view(bool floating, size_t width) const {
  const size_t bits = static_cast<size_t>(bit_width(type_));
  const bool complex = kind_of(type_) == DTypeKind::kComplex;
  const bool same_width = bits == width * 8 || (complex && bits == width * 16);
  const bool native = type_ == DType::kFloat32 || type_ == DType::kFloat64 || complex;
  GRAFT_CHECK(same_width && (!floating || native) && type_ != DType::kString,
              fmt::format("{} is read as elements of {} bytes", describe(*this), width));
}

double TensorData::read_double(int64_t index) const {
  if (kind_of(type_) == DTypeKind::kComplex) {
    return type_ == DType::kComplex64 ? static_cast<double>(as<float>()[static_cast<size_t>(2 * index)])
                                      : as<double>()[static_cast<size_t>(2 * index)];
  }
  check_range(*this, index, 1);
  return bits_to_double(type_, read_bits(bytes().data(), bit_width(type_), index));
}

int64_t TensorData::read_integer(int64_t index) const {
  check_range(*this, index, 1);
  return bits_to_integer(type_, read_bits(bytes().data(), bit_width(type_), index));
}

void TensorData::write_double(int64_t index, double value) {
  check_range(*this, index, 1);
  write_bits(mutable_bytes().data(), bit_width(type_), index, double_to_bits(type_, value));
}

void TensorData::write_integer(int64_t index, int64_t value) {
  check_range(*this, index, 1);
  write_bits(mutable_bytes().data(), bit_width(type_), index, integer_to_bits(type_, value));
}

void TensorData::read_doubles(int64_t first, std::span<double> values) const {
  check_range(*this, first, values.size());
  const std::byte* data = bytes().data();
  switch (type_) {
    case DType::kFloat64:
      return copy_as<double>(data, first, values);
    case DType::kFloat32:
      return copy_as<float>(data, first, values);
    case DType::kInt32:
      return copy_as<int32_t>(data, first, values);
    case DType::kInt8:
      return copy_as<int8_t>(data, first, values);
    case DType::kUint8:
      return copy_as<uint8_t>(data, first, values);
    default:
      break;
  }
  const int width = bit_width(type_);
  for (size_t i = 0; i < values.size(); ++i) {
    values[i] = bits_to_double(type_, read_bits(data, width, first + static_cast<int64_t>(i)));
  }
}

void TensorData::read_integers(int64_t first, std::span<int64_t> values) const {
  check_range(*this, first, values.size());
  const std::byte* data = bytes().data();
  switch (type_) {
    case DType::kInt64:
    case DType::kUint64:
      return copy_as<int64_t>(data, first, values);
    case DType::kInt32:
      return copy_as<int32_t>(data, first, values);
    case DType::kInt8:
      return copy_as<int8_t>(data, first, values);
    case DType::kUint8:
      return copy_as<uint8_t>(data, first, values);
    default:
      break;
  }
  const int width = bit_width(type_);
  for (size_t i = 0; i < values.size(); ++i) {
    values[i] = bits_to_integer(type_, read_bits(data, width, first + static_cast<int64_t>(i)));
  }
}

void TensorData::write_doubles(int64_t first, std::span<const double> values) {
  check_range(*this, first, values.size());
  std::byte* data = mutable_bytes().data();
  if (type_ == DType::kFloat64) return copy_into<double>(values, data, first);
  if (type_ == DType::kFloat32) return copy_into<float>(values, data, first);
  const int width = bit_width(type_);
  for (size_t i = 0; i < values.size(); ++i) {
    write_bits(data, width, first + static_cast<int64_t>(i), double_to_bits(type_, values[i]));
  }
}

void TensorData::write_integers(int64_t first, std::span<const int64_t> values) {
  check_range(*this, first, values.size());
  std::byte* data = mutable_bytes().data();
  switch (type_) {
    case DType::kInt64:
    case DType::kUint64:
      return copy_into<int64_t>(values, data, first);
    case DType::kInt32:
    case DType::kUint32:
      return copy_into<int32_t>(values, data, first);
    case DType::kInt8:
    case DType::kUint8:
      return copy_into<int8_t>(values, data, first);
    default:
      break;
  }
  const int width = bit_width(type_);
  for (size_t i = 0; i < values.size(); ++i) {
    write_bits(data, width, first + static_cast<int64_t>(i), integer_to_bits(type_, values[i]));
  }
}

TensorData TensorData::reshaped(std::vector<int64_t> shape) const {
  const int64_t count = checked_element_count(type_, shape);
  GRAFT_CHECK(count == count_, fmt::format("{} is reshaped to [{}]", describe(*this), fmt::join(shape, ", ")));
  TensorData result = *this;
  result.shape_ = std::move(shape);
  return result;
}

bool TensorData::operator==(const TensorData& other) const {
  if (type_ != other.type_ || shape_ != other.shape_) return false;
  if (type_ == DType::kString) return strings() == other.strings();
  return size_ == other.size_ && (size_ == 0 || std::memcmp(bytes().data(), other.bytes().data(), size_) == 0);
}

std::string describe(const TensorData& tensor) {
  return fmt::format("{}[{}]", name_of(tensor.type()), fmt::join(tensor.shape(), ", "));
}

void detail::throw_value_count(DType type, int64_t expected, size_t given) {
  throw Error(ErrorKind::kInvalidArgument,
              fmt::format("the tensor of {} has {} values, but {} are given", name_of(type), expected, given),
              "tensor");
}

}  // namespace graft
