// SPDX-License-Identifier: Apache-2.0
// The entry of the module of images.
#include "base/error.h"
#include "graft/graft_c.h"
#include "kernels/image/image.h"
#include "kernels/module_kernel.h"

namespace graft {
namespace {

/// The brightness of a pixel, in 16 bits of fraction.
uint8_t gray(const uint8_t* rgb) {
  return static_cast<uint8_t>((rgb[0] * 19595u + rgb[1] * 38470u + rgb[2] * 7471u + 0x8000u) >> 16);
}

HostKernel make_image_decoder(const Node& node) {
  const std::string format = KernelAttributes(node).text("pixel_format", "RGB");
  GRAFT_USER_CHECK(format == "RGB" || format == "BGR" || format == "Grayscale", kInvalidModel,
                   "its pixel_format is " + format, "");
  return [format](std::span<const DynamicValue> inputs) {
    const TensorData& file = tensor_input(inputs, 0, DType::kUint8);
    const auto decoded = image::decode({reinterpret_cast<const uint8_t*>(file.bytes().data()), file.bytes().size()});
    const image::Image found = decoded.value_or(image::Image());
    const int64_t channels = format == "Grayscale" ? 1 : 3;
    TensorData result = TensorData::zeros(DType::kUint8, {found.height, found.width, channels});
    auto* to = reinterpret_cast<uint8_t*>(result.mutable_bytes().data());
    const uint8_t* from = found.pixels.data();
    for (int64_t i = 0; i < found.height * found.width; ++i, from += 3, to += channels) {
      if (channels == 1) {
        to[0] = gray(from);
        continue;
      }
      const bool turned = format == "BGR";
      to[0] = from[turned ? 2 : 0], to[1] = from[1], to[2] = from[turned ? 0 : 2];
    }
    return std::vector<DynamicValue>{std::move(result)};
  };
}

}  // namespace
}  // namespace graft

extern "C" GRAFT_API bool graft_make_host_kernel(const graft::Node& node, graft::ModuleKernel& kernel,
                                                 graft::ModuleResult& error) {
  static constexpr graft::HostKernelInfo kTable[] = {{"", "ImageDecoder", graft::make_image_decoder, {}}};
  return graft::make_module_kernel(kTable, node, kernel, error);
}
