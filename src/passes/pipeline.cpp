// SPDX-License-Identifier: Apache-2.0
// The list of passes, as data. A row that comes again says why.
#include "passes/passes.h"

namespace graft {

const std::vector<Pass>& pipeline() {
  using namespace passes;
  static const std::vector<Pass> rows = {
      {"infer", infer, "types, symbolic shapes and known elements, which every pass reads"},
      {"lower_flex_attention", lower_flex_attention,
       "graphs that change the scores of an attention stand between its products"},
      {"seed_random", seed_random, "random numbers follow from a state, which a run draws or a seed says"},
      {"lower_recurrence", lower_recurrence, "layers over a length that only a run knows become Scan"},
      {"lower_scan", lower_scan, "Scan becomes Loop, so that all behind know one kind of loop"},
      {"lower_sequence_map", lower_sequence_map, "SequenceMap becomes Loop, which carries sequences"},
      {"lower_non_max_suppression", lower_non_max_suppression,
       "NonMaxSuppression becomes a loop whose rounds keep boxes by the dozen"},
      {"inline_if", inline_if, "a branch whose condition is known becomes part of the graph"},
      {"integer_products", integer_products, "products of dequantized tensors become products of integers"},
      {"keep_packed_weights", keep_packed_weights,
       "weights of few bits stay as they are stored, and are decoded where they are read"},
      {"fold_constants", fold_constants, "what does not depend on inputs is computed now"},
      {"unroll_loops", unroll_loops, "a loop of few rounds, all of which run, becomes these rounds"},
      {"inline_if", inline_if, "again: conditions and sizes that folding and rounds made known"},
      {"fold_constants", fold_constants, "again: what stood in the branches"},
      {"sink_into_branches", sink_into_branches,
       "what reads a result whose number of axes the branches decide moves into them"},
      {"resolve_sequences", resolve_sequences, "lists of tensors whose length is known become the tensors"},
      {"remove_identities", remove_identities, "nodes that give back their input go"},
      {"merge_equal_nodes", merge_equal_nodes, "equal nodes and equal constants become one"},
      {"remove_dead_nodes", remove_dead_nodes, "what nobody reads goes"},
      {"lower_pad_into_conv", lower_pad_into_conv, "padding with zeros is part of a convolution"},
      {"fold_batch_normalization", fold_batch_normalization, "scales move into weights"},
      {"recognise_gelu", recognise_gelu, "the products of exporters become Gelu"},
      {"recognise_layer_normalization", recognise_layer_normalization,
       "means, roots and quotients become one operator"},
      {"recognise_rms_normalization", recognise_rms_normalization, "the same without the mean"},
      {"recognise_group_normalization", recognise_group_normalization,
       "instances that are groups of channels become one operator"},
      {"recognise_attention", recognise_attention, "products around a softmax become Attention, which keeps no scores"},
      {"simplify_algebra", simplify_algebra, "neutral operands, chains of Reshape and Transpose, small powers"},
      {"sink_transposes", sink_transposes, "transpositions move down until they meet"},
      {"simplify_algebra", simplify_algebra, "again: transpositions that have met cancel"},
      {"sink_casts", sink_casts, "lossless casts move down, so that movement carries fewer bytes"},
      {"fold_constants", fold_constants, "again: constants that the rewrites above turned or added"},
      {"fold_batch_normalization", fold_batch_normalization,
       "again: scales of normalizations that were taken apart, behind transpositions that have sunk"},
      {"remove_identities", remove_identities, "again: what became an identity by the rewrites above"},
      {"merge_equal_nodes", merge_equal_nodes, "again: equal constants and nodes that the rewrites above added"},
      {"merge_quantizers", merge_quantizers, "quantizers take the scales of what they read"},
      {"lower_precision", lower_precision, "f32 becomes the type that --precision asks for, where it may", true},
      {"sink_casts", sink_casts, "again: casts that lowering placed before movement"},
      {"merge_parallel_matmuls", merge_parallel_matmuls, "products that read one tensor become one product"},
      {"merge_parallel_convolutions", merge_parallel_convolutions,
       "convolutions of one window that read one tensor become one convolution"},
      {"remove_dead_nodes", remove_dead_nodes, "again: what the last passes left over"},
      {"capture_constants", capture_constants, "constants that bodies read become theirs, to be folded and packed"},
      {"rewrite_bodies", rewrite_bodies, "bodies of branches and loops go through all of these passes"},
  };
  return rows;
}

}  // namespace graft
