// SPDX-License-Identifier: Apache-2.0
#include "framework.h"

#include <dlfcn.h>

#include <memory>

#include "failure.h"

namespace graft::extension {
namespace {

using Symbol = void*;
using CreateFromJson = int(const char*, Symbol*);
using Free = int(Symbol);
using WaitAll = int();
using WaitToRead = int(void*);
using GetData = int(void*, void**);
using InferShape = int(Symbol, uint32_t, const char**, const uint32_t*, const int*,  // the variables, by name
                       uint32_t*, const int**, const int***,                         // of arguments,
                       uint32_t*, const int**, const int***,                         // of outputs,
                       uint32_t*, const int**, const int***, int*);                  // of auxiliary states

void* library = nullptr;
int library_version = 0;

template <class Function>
Function* function(const char* name) {
  void* found = library ? dlsym(library, name) : nullptr;
  if (!found) throw Failure(std::string("this MXNet has no ") + name);
  return reinterpret_cast<Function*>(found);
}

struct FreeSymbol {
  void operator()(void* symbol) const { function<Free>("MXSymbolFree")(symbol); }
};

/// Shapes of all variables in one row, as MXNet takes them.
struct Given {
  explicit Given(const std::map<std::string, Sizes>& shapes) {
    for (const auto& [name, sizes] : shapes) {
      names.push_back(name.c_str());
      for (const int64_t size : sizes) elements.push_back(static_cast<int>(size));
      ends.push_back(static_cast<uint32_t>(elements.size()));
    }
  }
  std::vector<const char*> names;
  std::vector<uint32_t> ends = {0};
  std::vector<int> elements;
};

}  // namespace

void find_framework(void* address_in_it, int version) {
  Dl_info info;
  library_version = version;
  if (dladdr(address_in_it, &info) != 0) library = dlopen(info.dli_fname, RTLD_LAZY | RTLD_NOLOAD);
}

int framework_version() { return library_version; }

const void* data_of(void* array) {
  static auto* const wait = function<WaitToRead>("MXNDArrayWaitToRead");
  static auto* const get = function<GetData>("MXNDArrayGetData");
  void* data = nullptr;
  return wait(array) == 0 && get(array, &data) == 0 ? data : nullptr;
}

void wait_for_arrays() { function<WaitAll>("MXNDArrayWaitAll")(); }

std::optional<std::vector<Sizes>> infer_shapes(const std::string& symbol_json,
                                               const std::map<std::string, Sizes>& shapes) {
  Symbol created = nullptr;
  if (function<CreateFromJson>("MXSymbolCreateFromJSON")(symbol_json.c_str(), &created) != 0) return std::nullopt;
  const std::unique_ptr<void, FreeSymbol> symbol(created);
  Given given(shapes);
  uint32_t counts[3] = {};
  const int* ranks[3] = {};
  const int** data[3] = {};
  int complete = 0;
  const int status = function<InferShape>("MXSymbolInferShapeEx")(
      symbol.get(), static_cast<uint32_t>(given.names.size()), given.names.data(), given.ends.data(),
      given.elements.data(), &counts[0], &ranks[0], &data[0], &counts[1], &ranks[1], &data[1], &counts[2], &ranks[2],
      &data[2], &complete);
  if (status != 0 || !complete) return std::nullopt;
  std::vector<Sizes> outputs;
  for (uint32_t i = 0; i < counts[1]; ++i) {
    if (ranks[1][i] < 0) return std::nullopt;
    outputs.emplace_back(data[1][i], data[1][i] + ranks[1][i]);
  }
  return outputs;
}

}  // namespace graft::extension
