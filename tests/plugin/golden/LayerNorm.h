// Made by `graft plugin` of Graft 0.1.0 from model.onnx: a_Mean, a_Sub, a_Pow, a_Variance, a_Epsilon, a_Sqrt, a_Div, a_Mul, a_Add.
#pragma once

#include "graft_kernels.h"

extern "C" {
extern const unsigned char LayerNorm_sm_90a_cubin[];
}

namespace graft_made {

/// ReduceMean, Sub, Pow, ReduceMean, Add, Sqrt, Div, Mul, Add.
struct LayerNorm_plugin {
  static constexpr char kName[] = "LayerNorm";
  static constexpr char kIdentity[] = "ff367df9e076abe91e83827a7e318484";
  static constexpr int kInputs = 3, kOutputs = 1;

  static const Tensor* inputs() {
    static constexpr Tensor kTensors[] = {
        {"h", Type::f32, 3},  // [batch, length, 48]
        {"scale_a", Type::f32, 1},  // [48]
        {"bias_a", Type::f32, 1},  // [48]
    };
    return kTensors;
  }

  static const Tensor* outputs() {
    static constexpr Tensor kTensors[] = {
        {"normal", Type::f32, 3},  // [batch, length, 48]
    };
    return kTensors;
  }

  /// The sizes that a run has: of type int64_t, or expressions of who asks.
  template <class N>
  struct Dimensions {
    N batch;
    N length;
  };
  /// `axis(input, number)`: the extent of an input.
  template <class N, class Axis>
  static Dimensions<N> dimensions(const Axis& axis) {
    (void)axis;
    Dimensions<N> d{};
    d.batch = axis(0, 0);
    d.length = axis(0, 1);
    return d;
  }

  /// Why it cannot run with these sizes, or null.
  template <class Axis>
  static const char* problem(const Dimensions<int64_t>& d, const Axis& axis) {
    (void)d, (void)axis;
    if (axis(0, 2) != 48) return "axis 2 of input h is not 48";
    if (axis(1, 0) != 48) return "axis 0 of input scale_a is not 48";
    if (axis(2, 0) != 48) return "axis 0 of input bias_a is not 48";
    if (d.batch < 1) return "batch is less than 1";
    if (d.batch > 64) return "batch is more than 64";
    return nullptr;
  }

  template <class N>
  static void output_extents(int output, const Dimensions<N>& d, N* extents) {
    (void)d, (void)extents;
    switch (output) {
      case 0:
        extents[0] = d.batch;
        extents[1] = d.length;
        extents[2] = 48;
        return;
    }
  }

  static constexpr int kVariants = 1;
  static const Variant* variants() {
    static constexpr KernelFacts kKernels_sm_90a[] = {
        {"LayerNorm_0", 128, 0, 0},
    };
    static const Variant kVariantsOf[] = {
        {9, 0, true, LayerNorm_sm_90a_cubin, nullptr, nullptr, 0, kKernels_sm_90a, 1},
    };
    return kVariantsOf;
  }

  /// Where the memory between kernels begins in the workspace; gives its end.
  static int64_t workspace_sm_90a(const Dimensions<int64_t>& d, int64_t* offsets) {
    (void)d, (void)offsets;
    int64_t end = kStatusBytes;
    return end;
  }
  /// Bytes that a run needs on any of the GPUs.
  static int64_t workspace_bytes(const Dimensions<int64_t>& d) {
    int64_t offsets[1] = {};
    int64_t bytes = 0;
    bytes = max(bytes, workspace_sm_90a(d, offsets));
    return bytes;
  }

  /// Puts a run on a device into the stream. All memory is the device's, at multiples of 16 bytes.
  static CUresult launch(const Kernels& kernels, const Dimensions<int64_t>& d, const void* const* inputs,
                         void* const* outputs, void* workspace, CUstream stream) {
    switch (kernels.variant()) {
      case 0: return launch_sm_90a(kernels, d, inputs, outputs, workspace, stream);
    }
    return CUDA_ERROR_NOT_FOUND;
  }

  static CUresult launch_sm_90a(const Kernels& kernels, const Dimensions<int64_t>& d, const void* const* inputs,
      void* const* outputs, void* workspace, CUstream stream) {
    (void)kernels, (void)d, (void)inputs, (void)outputs, (void)stream;
    int64_t offsets[1] = {};
    workspace_sm_90a(d, offsets);
    char* const memory = static_cast<char*>(workspace);
    void* status = memory;
    (void)status;
    {  // LayerNormalization
      const void* b0 = inputs[0];
      const void* b1 = inputs[1];
      const void* b2 = inputs[2];
      const void* b3 = outputs[0];
      int64_t s0 = d.batch;
      int64_t s1 = d.length;
      void* arguments[] = {&b0, &b1, &b2, &b3, &s0, &s1, &status};
      const CUresult result = kernels.launch(0, floor_div(d.batch*d.length + 7, 8), arguments, stream);
      if (result != CUDA_SUCCESS) return result;
    }
    return CUDA_SUCCESS;
  }
};

}  // namespace graft_made
