// SPDX-License-Identifier: Apache-2.0
// The statements of point programs, maps and reductions, seen alike.
#pragma once

#include <algorithm>

#include "codegen/cuda/kernel_writer.h"

namespace graft::cuda::points {

inline const std::vector<tile::Axis>& axes_of(const tile::Statement& statement) {
  if (const auto* map = std::get_if<tile::Map>(&statement.node)) return map->axes;
  return std::get<tile::Reduce>(statement.node).axes;
}

inline std::vector<tile::Axis> reduced_of(const tile::Statement& statement) {
  const auto* reduce = std::get_if<tile::Reduce>(&statement.node);
  return reduce ? reduce->reduced : std::vector<tile::Axis>{};
}

inline std::vector<Expr> values_of(const tile::Statement& statement) {
  if (const auto* reduce = std::get_if<tile::Reduce>(&statement.node)) return reduce->lift;
  std::vector<Expr> values;
  for (const tile::Store& store : std::get<tile::Map>(statement.node).stores) values.push_back(store.value);
  return values;
}

inline const std::vector<tile::Store>& stores_of(const tile::Statement& statement) {
  if (const auto* reduce = std::get_if<tile::Reduce>(&statement.node)) return reduce->outputs;
  return std::get<tile::Map>(statement.node).stores;
}

/// An element, which is called that, as the window keeps it.
std::string widened_element(const PointWindow& window, const std::string& element);

}  // namespace graft::cuda::points
