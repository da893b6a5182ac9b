// SPDX-License-Identifier: Apache-2.0
#include "library/cublaslt/product.h"

#include <algorithm>
#include <numeric>

#include <fmt/format.h>

#include "base/error.h"

namespace graft::cublaslt {
namespace {

/// What every run may use; the fastest ways of Hopper want this much.
constexpr size_t kMostWorkspace = 32 << 20;
constexpr int kMostWays = 16;
/// What a pointer of a run is aligned to, before its offset.
constexpr int64_t kAlignment = 16;

StreamHandles<cublasLtHandle_t>::Shared handle_of(void* stream) {
  static StreamHandles<cublasLtHandle_t> handles;
  return handles.of(
      stream,
      [] {
        cublasLtHandle_t handle = nullptr;
        check(api().create(&handle), "it does not start");
        return handle;
      },
      [](cublasLtHandle_t handle) { api().destroy(handle); });
}

cudaDataType_t type_of(DType type) {
  switch (type) {
    case DType::kFloat32:
      return CUDA_R_32F;
    case DType::kFloat16:
      return CUDA_R_16F;
    case DType::kBFloat16:
      return CUDA_R_16BF;
    default:
      throw Error(ErrorKind::kUnsupported, fmt::format("it has no products of {}", name_of(type)), "cuBLASLt");
  }
}

cublasLtEpilogue_t epilogue_of(const ProductForm& form) {
  const bool bias = form.bias.has_value();
  switch (form.activation) {
    case Activation::kNone:
      return bias ? CUBLASLT_EPILOGUE_BIAS : CUBLASLT_EPILOGUE_DEFAULT;
    case Activation::kRelu:
      return bias ? CUBLASLT_EPILOGUE_RELU_BIAS : CUBLASLT_EPILOGUE_RELU;
    case Activation::kGeluTanh:
      return bias ? CUBLASLT_EPILOGUE_GELU_BIAS : CUBLASLT_EPILOGUE_GELU;
  }
  return CUBLASLT_EPILOGUE_DEFAULT;
}

int64_t element_bytes(const ProductForm& form) { return bit_width(form.type) / 8; }

/// Bytes that an operand is aligned to in every repeat.
uint32_t alignment_of(const ProductForm& form, const Matrix& matrix, int64_t ProductForm::Repeat::*move) {
  int64_t aligned = std::gcd(kAlignment, matrix.offset * element_bytes(form));
  for (const auto& repeat : form.repeats) aligned = std::gcd(aligned, repeat.*move * element_bytes(form));
  return static_cast<uint32_t>(aligned);
}

}  // namespace

Product::Product(const ProductForm& form, int choice, void* stream)
    : form_(form),
      stream_(static_cast<cudaStream_t>(stream)),
      handle_(handle_of(stream)),
      description_(nullptr, api().description_destroy),
      a_(layout(form.a)),
      b_(layout(form.b)),
      added_(layout(form.added ? *form.added : form.result)),
      result_(layout(form.result)) {
  describe();
  choose(choice);
}

Product::Layout Product::layout(const Matrix& matrix) const {
  cublasLtMatrixLayout_t made = nullptr;
  check(api().layout_create(&made, type_of(form_.type), static_cast<uint64_t>(matrix.rows),
                            static_cast<uint64_t>(matrix.columns), matrix.leading),
        "a matrix cannot be described");
  Layout owned(made, api().layout_destroy);
  const auto batch = static_cast<int32_t>(form_.batch);
  check(api().layout_set(made, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &batch, sizeof batch), "batches");
  check(api().layout_set(made, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, &matrix.batch_stride,
                         sizeof matrix.batch_stride),
        "batches");
  return owned;
}

void Product::describe() {
  cublasLtMatmulDesc_t made = nullptr;
  // Unless tf32 is asked for, operands are not rounded; sums are of f32 always.
  check(api().description_create(&made, form_.tf32 ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F, CUDA_R_32F),
        "a product cannot be described");
  description_.reset(made);
  const auto set = [&](cublasLtMatmulDescAttributes_t attribute, const auto& value) {
    check(api().description_set(made, attribute, &value, sizeof value), "a product cannot be described");
  };
  set(CUBLASLT_MATMUL_DESC_TRANSA, form_.a.transposed ? CUBLAS_OP_T : CUBLAS_OP_N);
  set(CUBLASLT_MATMUL_DESC_TRANSB, form_.b.transposed ? CUBLAS_OP_T : CUBLAS_OP_N);
  set(CUBLASLT_MATMUL_DESC_EPILOGUE, epilogue_of(form_));
  if (form_.bias) {
    // Some ways look at the alignment; a run sets the real address.
    const void* address = reinterpret_cast<const void*>(kAlignment + form_.bias->offset * element_bytes(form_));
    set(CUBLASLT_MATMUL_DESC_BIAS_POINTER, address);
  }
}

void Product::choose(int choice) {
  cublasLtMatmulPreference_t made = nullptr;
  check(api().preference_create(&made), "a preference cannot be made");
  const Owned<cublasLtMatmulPreferenceOpaque_t> preference(made, api().preference_destroy);
  const auto set = [&](cublasLtMatmulPreferenceAttributes_t attribute, const auto& value) {
    check(api().preference_set(made, attribute, &value, sizeof value), "a preference cannot be set");
  };
  set(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, kMostWorkspace);
  // Parts of a split sum are added in f32.
  set(CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, static_cast<uint32_t>(CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE));
  using Repeat = ProductForm::Repeat;
  set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, alignment_of(form_, form_.a, &Repeat::a));
  set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, alignment_of(form_, form_.b, &Repeat::b));
  set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, alignment_of(form_, form_.result, &Repeat::result));
  const uint32_t added = form_.added ? alignment_of(form_, *form_.added, &Repeat::added)
                                     : alignment_of(form_, form_.result, &Repeat::result);
  set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, added);
  cublasLtMatmulHeuristicResult_t ways[kMostWays];
  int found = 0;
  const int wanted = std::clamp(choice + 1, 4, kMostWays);
  check(api().heuristic(handle_.get(), description_.get(), a_.get(), b_.get(), added_.get(), result_.get(), made,
                        wanted, ways, &found),
        "it has no way for this product");
  const auto* end = std::remove_if(ways, ways + found, [](const auto& way) {
    return way.state != CUBLAS_STATUS_SUCCESS || way.workspaceSize > kMostWorkspace;
  });
  GRAFT_USER_CHECK(choice < end - ways, kUnsupported, fmt::format("it has {} ways for this product", end - ways),
                   "cuBLASLt");
  algorithm_ = ways[choice].algo;
  workspace_ = ways[choice].workspaceSize;
  implementation_ = fmt::format("way {} of {}, {} bytes of workspace, {:.2f} waves", choice, end - ways, workspace_,
                                ways[choice].wavesCount);
}

int Product::run(void* const* buffers, void* workspace) {
  std::vector<int64_t>& at = position_;
  at.assign(form_.repeats.size(), 0);
  while (true) {
    if (const int status = run_at(buffers, workspace, at); status != 0) return status;
    size_t axis = at.size();
    while (axis > 0 && ++at[axis - 1] == form_.repeats[axis - 1].count) at[--axis] = 0;
    if (axis == 0) return 0;
  }
}

int Product::run_at(void* const* buffers, void* workspace, const std::vector<int64_t>& at) {
  const auto address = [&](const Matrix& matrix, int64_t ProductForm::Repeat::*move) {
    int64_t offset = matrix.offset;
    for (size_t i = 0; move && i < at.size(); ++i) offset += at[i] * (form_.repeats[i].*move);
    return static_cast<char*>(buffers[matrix.buffer]) + offset * element_bytes(form_);
  };
  using Repeat = ProductForm::Repeat;
  if (form_.bias) {
    const void* bias = address(*form_.bias, nullptr);
    const auto status =
        api().description_set(description_.get(), CUBLASLT_MATMUL_DESC_BIAS_POINTER, &bias, sizeof bias);
    if (status != CUBLAS_STATUS_SUCCESS) return status;
  }
  char* const result = address(form_.result, &Repeat::result);
  const char* const added = form_.added ? address(*form_.added, &Repeat::added) : result;
  const float beta = form_.added ? 1 : 0;
  return api().matmul(handle_.get(), description_.get(), &form_.alpha, address(form_.a, &Repeat::a), a_.get(),
                      address(form_.b, &Repeat::b), b_.get(), &beta, added, added_.get(), result, result_.get(),
                      &algorithm_, workspace, workspace_, stream_);
}

}  // namespace graft::cublaslt
