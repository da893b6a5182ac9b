// SPDX-License-Identifier: Apache-2.0
// JPEG 2000 through OpenJPEG.
#include <algorithm>
#include <cmath>
#include <memory>

#include <openjpeg.h>

#include "kernels/image/image.h"

namespace graft::image {
namespace {

constexpr OPJ_UINT32 kMostComponents = 5;
constexpr OPJ_SIZE_T kBufferBytes = 1 << 16;

/// A file in memory, as OpenJPEG reads it.
struct Source {
  Bytes file;
  size_t at = 0;
};

OPJ_SIZE_T read_file(void* to, OPJ_SIZE_T count, void* data) {
  auto& source = *static_cast<Source*>(data);
  const size_t taken = std::min<size_t>(count, source.file.size() - source.at);
  if (taken == 0) return static_cast<OPJ_SIZE_T>(-1);
  std::copy_n(source.file.begin() + static_cast<std::ptrdiff_t>(source.at), taken, static_cast<uint8_t*>(to));
  source.at += taken;
  return taken;
}

OPJ_OFF_T skip_file(OPJ_OFF_T count, void* data) {
  auto& source = *static_cast<Source*>(data);
  if (count < 0) return -1;
  const auto taken = std::min<size_t>(static_cast<size_t>(count), source.file.size() - source.at);
  source.at += taken;
  return static_cast<OPJ_OFF_T>(taken);
}

OPJ_BOOL seek_file(OPJ_OFF_T at, void* data) {
  auto& source = *static_cast<Source*>(data);
  if (at < 0 || static_cast<size_t>(at) > source.file.size()) return OPJ_FALSE;
  source.at = static_cast<size_t>(at);
  return OPJ_TRUE;
}

void say_nothing(const char*, void*) {}

/// A sample of a component at a place of the whole image, as 8 bits.
double sample_of(const opj_image_comp_t& component, int64_t y, int64_t x) {
  const int64_t row = std::min<int64_t>(y / component.dy, int64_t{component.h} - 1);
  const int64_t column = std::min<int64_t>(x / component.dx, int64_t{component.w} - 1);
  int64_t value = component.data[row * component.w + column];
  if (component.sgnd) value += int64_t{1} << (component.prec - 1);
  const double most = std::ldexp(1.0, static_cast<int>(component.prec)) - 1;
  return static_cast<double>(value) * 255.0 / most;
}

uint8_t rounded(double value) { return static_cast<uint8_t>(std::clamp(std::floor(value + 0.5), 0.0, 255.0)); }

bool is_usable(const opj_image_t& image) {
  if (image.x1 <= image.x0 || image.y1 <= image.y0 || image.numcomps == 0 || image.numcomps > kMostComponents) {
    return false;
  }
  return is_size(int64_t{image.y1} - image.y0, int64_t{image.x1} - image.x0);
}

std::optional<Image> pixels_of(const opj_image_t& from) {
  const OPJ_UINT32 colours = from.numcomps >= 3 ? 3 : 1;
  for (OPJ_UINT32 c = 0; c < colours; ++c) {
    const opj_image_comp_t& component = from.comps[c];
    const bool good = component.data && component.w > 0 && component.h > 0 && component.dx > 0 && component.dy > 0 &&
                      component.prec >= 1 && component.prec <= 32;
    if (!good) return std::nullopt;
  }
  Image image = make_image(int64_t{from.y1} - from.y0, int64_t{from.x1} - from.x0);
  uint8_t* pixel = image.pixels.data();
  for (int64_t y = 0; y < image.height; ++y) {
    for (int64_t x = 0; x < image.width; ++x, pixel += 3) {
      double value[3];
      for (OPJ_UINT32 c = 0; c < 3; ++c) value[c] = sample_of(from.comps[c < colours ? c : 0], y, x);
      if (from.color_space == OPJ_CLRSPC_SYCC && colours == 3) {
        const double luma = value[0], blue = value[1] - 128, red = value[2] - 128;
        value[0] = luma + 1.402 * red;
        value[1] = luma - 0.344136 * blue - 0.714136 * red;
        value[2] = luma + 1.772 * blue;
      }
      for (int c = 0; c < 3; ++c) pixel[c] = rounded(value[c]);
    }
  }
  return image;
}

}  // namespace

std::optional<Image> decode_jpeg2000(Bytes file) {
  Source source{file};
  const bool is_codestream = file[0] == 0xFF;
  const std::unique_ptr<opj_codec_t, void (*)(opj_codec_t*)> codec(
      opj_create_decompress(is_codestream ? OPJ_CODEC_J2K : OPJ_CODEC_JP2),
      [](opj_codec_t* made) { opj_destroy_codec(made); });
  const std::unique_ptr<opj_stream_t, void (*)(opj_stream_t*)> stream(
      opj_stream_create(kBufferBytes, OPJ_TRUE), [](opj_stream_t* made) { opj_stream_destroy(made); });
  if (!codec || !stream) return std::nullopt;
  opj_set_error_handler(codec.get(), say_nothing, nullptr);
  opj_set_warning_handler(codec.get(), say_nothing, nullptr);
  opj_set_info_handler(codec.get(), say_nothing, nullptr);
  opj_stream_set_user_data(stream.get(), &source, nullptr);
  opj_stream_set_user_data_length(stream.get(), file.size());
  opj_stream_set_read_function(stream.get(), read_file);
  opj_stream_set_skip_function(stream.get(), skip_file);
  opj_stream_set_seek_function(stream.get(), seek_file);
  opj_dparameters_t parameters;
  opj_set_default_decoder_parameters(&parameters);
  opj_image_t* read = nullptr;
  const bool opened = opj_setup_decoder(codec.get(), &parameters) && opj_read_header(stream.get(), codec.get(), &read);
  const std::unique_ptr<opj_image_t, void (*)(opj_image_t*)> image(read, opj_image_destroy);
  if (!opened || !image || !is_usable(*image)) return std::nullopt;
  if (!opj_decode(codec.get(), stream.get(), image.get()) || !is_usable(*image)) return std::nullopt;
  return pixels_of(*image);
}

}  // namespace graft::image
