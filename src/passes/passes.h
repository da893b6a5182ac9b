// SPDX-License-Identifier: Apache-2.0
// Every pass, in the order of its first row in pipeline.cpp. Each is in the file of its name, with its golden test in
// tests/golden/passes/.
#pragma once

#include "passes/pass.h"

namespace graft::passes {

bool infer(Graph&, const PassContext&);
bool integer_products(Graph&, const PassContext&);
bool float8_products(Graph&, const PassContext&);
bool keep_packed_weights(Graph&, const PassContext&);
bool tabulate_codes(Graph&, const PassContext&);
bool merge_quantizers(Graph&, const PassContext&);
bool lower_flex_attention(Graph&, const PassContext&);
bool seed_random(Graph&, const PassContext&);
bool lower_recurrence(Graph&, const PassContext&);
bool lower_scan(Graph&, const PassContext&);
bool lower_sequence_map(Graph&, const PassContext&);
bool lower_non_max_suppression(Graph&, const PassContext&);
bool inline_if(Graph&, const PassContext&);
bool unroll_loops(Graph&, const PassContext&);
bool sink_into_branches(Graph&, const PassContext&);
bool fold_constants(Graph&, const PassContext&);
bool resolve_sequences(Graph&, const PassContext&);
bool remove_identities(Graph&, const PassContext&);
bool merge_equal_nodes(Graph&, const PassContext&);
bool remove_dead_nodes(Graph&, const PassContext&);
bool lower_pad_into_conv(Graph&, const PassContext&);
bool fold_batch_normalization(Graph&, const PassContext&);
bool recognise_gelu(Graph&, const PassContext&);
bool recognise_layer_normalization(Graph&, const PassContext&);
bool recognise_rms_normalization(Graph&, const PassContext&);
bool recognise_group_normalization(Graph&, const PassContext&);
bool recognise_attention(Graph&, const PassContext&);
bool simplify_algebra(Graph&, const PassContext&);
bool sink_transposes(Graph&, const PassContext&);
bool sink_casts(Graph&, const PassContext&);
bool lower_precision(Graph&, const PassContext&);
bool merge_parallel_matmuls(Graph&, const PassContext&);
bool merge_parallel_convolutions(Graph&, const PassContext&);
bool capture_constants(Graph&, const PassContext&);
bool rewrite_bodies(Graph&, const PassContext&);

}  // namespace graft::passes
