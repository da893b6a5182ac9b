// SPDX-License-Identifier: Apache-2.0
#include "library/cudnn/plan.h"

namespace graft::cudnn {

Plan::Plan(std::shared_ptr<const ChosenPlan> chosen) : chosen_(std::move(chosen)) {
  for (const TensorForm& tensor : chosen_->graph.tensors) {
    places_.push_back({tensor.buffer, tensor.offset * bit_width(tensor.type) / 8});
  }
  addresses_.resize(places_.size());
}

int Plan::run(void* const* buffers, void* workspace) {
  bool same = addresses_pack_ && packed_workspace_ == workspace;
  for (size_t i = 0; i < places_.size(); ++i) {
    const Place& place = places_[i];
    const void* const number = &chosen_->graph.numbers[i];  // only read
    void* address =
        place.buffer < 0 ? const_cast<void*>(number) : static_cast<char*>(buffers[place.buffer]) + place.bytes;
    same &= address == addresses_[i];
    addresses_[i] = address;
  }
  try {
    if (!same) {
      std::vector<int64_t> identities;
      for (size_t i = 0; i < addresses_.size(); ++i) identities.push_back(static_cast<int64_t>(i) + 1);
      addresses_pack_ = std::make_unique<Descriptor>(CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR);
      addresses_pack_->set(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, identities);
      addresses_pack_->set(CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, CUDNN_TYPE_VOID_PTR,
                           static_cast<int64_t>(addresses_.size()), addresses_.data());
      addresses_pack_->set(CUDNN_ATTR_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR, 1, &workspace);
      addresses_pack_->finalize("addresses cannot be given");
      packed_workspace_ = workspace;
    }
  } catch (const std::exception&) {
    addresses_pack_ = nullptr;
    return CUDNN_STATUS_BAD_PARAM;
  }
  return api().execute(chosen_->handle.get(), chosen_->plan->get(), addresses_pack_->get());
}

}  // namespace graft::cudnn
