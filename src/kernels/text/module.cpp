// SPDX-License-Identifier: Apache-2.0
// The entry of the module of strings.
#include "graft/graft_c.h"
#include "kernels/module_kernel.h"
#include "kernels/text/text_kernels.h"

extern "C" GRAFT_API bool graft_make_host_kernel(const graft::Node& node, graft::ModuleKernel& kernel,
                                                 graft::ModuleResult& error) {
  static constexpr graft::HostKernelInfo kTable[] = {
      {"", "StringNormalizer", graft::make_string_normalizer, {}},
      {"", "RegexFullMatch", graft::make_regex_full_match, {}},
      {"com.microsoft", "Tokenizer", graft::make_tokenizer, {}},
  };
  return graft::make_module_kernel(kTable, node, kernel, error);
}
