// SPDX-License-Identifier: Apache-2.0
// JPEG through libjpeg-turbo.
#include <csetjmp>
#include <cstdio>

#include <jpeglib.h>

#include "kernels/image/image.h"

namespace graft::image {
namespace {

/// A progressive file may say again and again what it has said: more scans than any encoder writes are an attack.
constexpr int kMostScans = 256;

/// What libjpeg calls back with. Nothing between setjmp and what jumps there has a destructor.
struct Context {
  jpeg_error_mgr errors;
  jpeg_progress_mgr progress;
  std::jmp_buf escape;
};

void escape(j_common_ptr decoder) { std::longjmp(static_cast<Context*>(decoder->client_data)->escape, 1); }

void count_scans(j_common_ptr decoder) {
  if (reinterpret_cast<j_decompress_ptr>(decoder)->input_scan_number > kMostScans) escape(decoder);
}

/// Reads the rows; false where the file ends or lies.
bool read_rows(jpeg_decompress_struct& decoder, Context& context, Bytes file, Image& image, std::vector<uint8_t>& row) {
  if (setjmp(context.escape)) return false;
  jpeg_create_decompress(&decoder);
  decoder.client_data = &context;
  decoder.progress = &context.progress;
  jpeg_mem_src(&decoder, file.data(), file.size());
  if (jpeg_read_header(&decoder, TRUE) != JPEG_HEADER_OK) return false;
  if (!is_size(decoder.image_height, decoder.image_width)) return false;
  const bool is_print = decoder.jpeg_color_space == JCS_CMYK || decoder.jpeg_color_space == JCS_YCCK;
  decoder.out_color_space = is_print ? JCS_CMYK : JCS_RGB;
  jpeg_start_decompress(&decoder);
  image = make_image(decoder.output_height, decoder.output_width);
  row.resize(size_t{decoder.output_width} * 4);
  while (decoder.output_scanline < decoder.output_height) {
    uint8_t* into = image.pixels.data() + int64_t{decoder.output_scanline} * image.width * 3;
    JSAMPROW rows[] = {is_print ? row.data() : into};
    if (jpeg_read_scanlines(&decoder, rows, 1) != 1) return false;
    if (!is_print) continue;
    for (int64_t x = 0; x < image.width; ++x) {  // Adobe writes inks the other way round
      const uint8_t* ink = row.data() + x * 4;
      for (int64_t c = 0; c < 3; ++c) into[x * 3 + c] = static_cast<uint8_t>(ink[c] * ink[3] / 255);
    }
  }
  jpeg_finish_decompress(&decoder);
  return true;
}

}  // namespace

std::optional<Image> decode_jpeg(Bytes file) {
  jpeg_decompress_struct decoder{};
  Context context{};
  decoder.err = jpeg_std_error(&context.errors);
  decoder.client_data = &context;
  context.errors.error_exit = escape;
  context.errors.output_message = [](j_common_ptr) {};
  context.progress.progress_monitor = count_scans;
  Image image;
  std::vector<uint8_t> row;
  const bool good = read_rows(decoder, context, file, image, row);
  jpeg_destroy_decompress(&decoder);
  return good ? std::optional(std::move(image)) : std::nullopt;
}

}  // namespace graft::image
