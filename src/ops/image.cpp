// SPDX-License-Identifier: Apache-2.0
// Images in files: the types of what their operators give.
#include "graph/host_operator.h"

namespace graft {
namespace {

void infer_image_decoder(HostInference& h) {
  h.require_type(0, DType::kUint8);
  const std::string format = h.text("pixel_format");
  if (format != "RGB" && format != "BGR" && format != "Grayscale") h.reject("its pixel_format is " + format);
  // What cannot be decoded is an image of no size.
  h.give(0, DType::kUint8, Shape{h.counted(0, 0), h.counted(0, 1), Size(format == "Grayscale" ? 1 : 3)});
}

}  // namespace

std::vector<HostOp> image_host_ops() {
  return {{.domain = "", .name = "ImageDecoder", .since = 20, .inputs = {"encoded_stream"}, .outputs = {"image"},
           .attributes = {{"pixel_format", std::string("RGB")}}, .infer = infer_image_decoder,
           .doc = "The pixels [height, width, channels] of a BMP, JPEG, JPEG 2000, TIFF, PNG, WebP or PNM file."}};
}

}  // namespace graft
