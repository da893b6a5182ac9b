// SPDX-License-Identifier: Apache-2.0
#include "tile/lower.h"

#include "base/error.h"
#include "expr/build.h"

namespace graft::tile {

Shape physical_shape(const PanelLayout& layout, const Shape& shape) {
  Shape physical(shape.begin(), shape.begin() + layout.keep);
  physical.push_back(ceil_div(shape[layout.dim], layout.lanes));
  for (const int d : layout.rest) physical.push_back(shape[d]);
  physical.push_back(layout.lanes);
  return physical;
}

Region packing_region(const PanelLayout& layout, DType type, const Shape& shape) {
  RegionBuilder builder;
  const Tensor source = builder.input("source", type, shape);
  const Size extent = shape[layout.dim];
  const Tensor packed = builder.compute("packed", type, physical_shape(layout, shape), [&](const Indices& i) {
    Indices from(i.begin(), i.begin() + layout.keep);
    from.resize(shape.size());
    const Expr element = i[layout.keep] * make_index(layout.lanes) + i.back();
    from[layout.dim] = element;
    for (size_t r = 0; r < layout.rest.size(); ++r) from[layout.rest[r]] = i[layout.keep + 1 + r];
    const Expr value = source(from);
    if (extent.is_multiple_of(layout.lanes)) return value;
    return select(lt(element, make_size(extent)), value, make_integer(type, 0));
  });
  return builder.finish("pack", {packed});
}

Lowered lower(const Region& region, const Layouts& layouts, const Schedule& schedule, const Target& target) {
  Lowered lowered = std::visit(
      [&](const auto& record) -> Lowered {
        using Record = std::decay_t<decltype(record)>;
        if constexpr (std::is_same_v<Record, NestSchedule>) return lower_nest(region, record, target);
        if constexpr (std::is_same_v<Record, ContractSchedule>) return lower_contract(region, layouts, record, target);
        if constexpr (std::is_same_v<Record, AttentionSchedule>) return lower_attention(region, record, target);
      },
      schedule);
  if (const auto* program = std::get_if<Program>(&lowered)) verify(*program);
  return lowered;
}

}  // namespace graft::tile
