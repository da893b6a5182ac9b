// SPDX-License-Identifier: Apache-2.0
// Which variables of a symbol are data, which change from run to run, and which are parameters.
#pragma once

#include <map>
#include <set>
#include <string>

#include "mxnet/lib_api.h"
#include "spec.h"

namespace graft::extension {

enum class Role {
  kParameter,  ///< a constant of the engines
  kData,       ///< its first axis is the batch
  kOther,      ///< a tensor of fixed sizes that is handed over in each run
};

/// By variable. Without data_names: data is what has no array yet, and what is called `data`, `data1` or like a label;
/// parameters are what operators take as their weights and statistics. Throws Failure for a name that there is not and
/// for a parameter without an array.
std::map<const mxnet::ext::Node*, Role> roles_of_variables(mxnet::ext::Graph& graph, const Spec& spec);

}  // namespace graft::extension
