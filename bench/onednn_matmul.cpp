// SPDX-License-Identifier: Apache-2.0
// A matrix product in oneDNN as its own users run it: on its OpenMP threads, with the weights in the format it prefers.

#include <cstdint>
#include <exception>

#include <oneapi/dnnl/dnnl.hpp>

namespace {

using dnnl::memory;

struct Product {
  dnnl::engine engine{dnnl::engine::kind::cpu, 0};
  dnnl::stream stream{engine};
  memory source, weights, result;
  dnnl::matmul primitive;
};

// result [m, n] = source [m, k] * weights [k, n], all row-major but for the copy of the weights that is made here.
Product* make(int64_t m, int64_t n, int64_t k, float* source, float* weights, float* result) {
  auto* made = new Product;
  const auto type = memory::data_type::f32;
  const memory::desc rows({m, k}, type, memory::format_tag::ab), columns({m, n}, type, memory::format_tag::ab);
  const memory::desc any({k, n}, type, memory::format_tag::any);
  const dnnl::matmul::primitive_desc chosen(made->engine, rows, any, columns);
  memory plain({{k, n}, type, memory::format_tag::ab}, made->engine, weights);
  made->weights = memory(chosen.weights_desc(), made->engine);
  dnnl::reorder(plain, made->weights).execute(made->stream, plain, made->weights);
  made->stream.wait();
  made->source = memory(rows, made->engine, source);
  made->result = memory(columns, made->engine, result);
  made->primitive = dnnl::matmul(chosen);
  return made;
}

}  // namespace

// Returns a handle, or null.
extern "C" void* matmul_create(int64_t m, int64_t n, int64_t k, float* source, float* weights, float* result) {
  try {
    return make(m, n, k, source, weights, result);
  } catch (const std::exception&) {
    return nullptr;
  }
}

extern "C" int matmul_run(void* handle) {
  auto& product = *static_cast<Product*>(handle);
  const dnnl_exec_arg_t arguments[] = {{DNNL_ARG_SRC, product.source.get()},
                                       {DNNL_ARG_WEIGHTS, product.weights.get()},
                                       {DNNL_ARG_DST, product.result.get()}};
  const int status = dnnl_primitive_execute(product.primitive.get(), product.stream.get(), 3, arguments);
  return status != 0 ? status : dnnl_stream_wait(product.stream.get());
}

// Major, minor and patch level as one number.
extern "C" int matmul_version() {
  const dnnl_version_t* version = dnnl_version();
  return version->major * 10000 + version->minor * 100 + version->patch;
}
