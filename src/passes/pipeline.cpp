// SPDX-License-Identifier: Apache-2.0
// The list of passes, as data. A row that comes again says why.
#include "passes/passes.h"

namespace graft {

const std::vector<Pass>& pipeline() {
  using namespace passes;
  static const std::vector<Pass> rows = {
      {"infer", infer, "infers types, symbolic shapes and known elements for all passes"},
      {"lower_flex_attention", lower_flex_attention,
       "inlines the score graphs of an attention between its products"},
      {"seed_random", seed_random, "random numbers get a state: the seed, or a number drawn in each run"},
      {"lower_recurrence", lower_recurrence, "recurrent layers over a dynamic length become Scan"},
      {"lower_scan", lower_scan, "Scan becomes Loop, so that later passes see one kind of loop"},
      {"lower_sequence_map", lower_sequence_map, "SequenceMap becomes Loop, which carries sequences"},
      {"lower_non_max_suppression", lower_non_max_suppression,
       "NonMaxSuppression becomes a loop that keeps several boxes per iteration"},
      {"inline_if", inline_if, "inlines branches with a constant condition"},
      {"integer_products", integer_products, "products of dequantized tensors become integer products"},
      {"float8_products", float8_products, "the same of floats of 8 bits"},
      {"keep_packed_weights", keep_packed_weights,
       "weights of few bits stay packed, and are decoded in the products that read them"},
      {"fold_constants", fold_constants, "evaluates nodes that do not depend on inputs"},
      {"unroll_loops", unroll_loops, "unrolls loops with a small static trip count"},
      {"inline_if", inline_if, "again: conditions and sizes known after folding and unrolling"},
      {"fold_constants", fold_constants, "again: nodes of the inlined branches"},
      {"sink_into_branches", sink_into_branches,
       "moves readers of a result whose rank the branches decide into the branches"},
      {"resolve_sequences", resolve_sequences, "replaces lists of known length by their tensors"},
      {"remove_identities", remove_identities, "removes nodes that return their input"},
      {"merge_equal_nodes", merge_equal_nodes, "merges equal nodes and equal constants"},
      {"remove_dead_nodes", remove_dead_nodes, "removes nodes without readers"},
      {"lower_pad_into_conv", lower_pad_into_conv, "moves zero padding into convolutions"},
      {"fold_batch_normalization", fold_batch_normalization, "folds scales into weights"},
      {"recognise_gelu", recognise_gelu, "the spellings of exporters become Gelu"},
      {"recognise_layer_normalization", recognise_layer_normalization,
       "means, roots and quotients become LayerNormalization"},
      {"recognise_rms_normalization", recognise_rms_normalization, "the same without the mean"},
      {"recognise_group_normalization", recognise_group_normalization,
       "instance normalisation of grouped channels becomes GroupNormalization"},
      {"recognise_attention", recognise_attention,
       "products around a softmax become Attention, which stores no scores"},
      {"simplify_algebra", simplify_algebra,
       "removes neutral operands, joins chains of Reshape and Transpose, expands small powers"},
      {"sink_transposes", sink_transposes, "moves transpositions down until they meet"},
      {"simplify_algebra", simplify_algebra, "again: cancels transpositions that have met"},
      {"sink_casts", sink_casts, "moves lossless casts down, so that data movement carries fewer bytes"},
      {"fold_constants", fold_constants, "again: constants that the rewrites above changed or added"},
      {"fold_batch_normalization", fold_batch_normalization,
       "again: scales of decomposed normalisations, behind sunk transpositions"},
      {"remove_identities", remove_identities, "again: identities made by the rewrites above"},
      {"merge_equal_nodes", merge_equal_nodes, "again: equal constants and nodes that the rewrites above added"},
      {"tabulate_codes", tabulate_codes, "functions of one tensor of 8-bit codes become lookup tables"},
      {"merge_quantizers", merge_quantizers, "quantizers take over the scales of their operands"},
      {"lower_precision", lower_precision, "f32 becomes the type of --precision, by the rules of each operator", true},
      {"sink_casts", sink_casts, "again: casts that lowering placed before data movement"},
      {"merge_parallel_matmuls", merge_parallel_matmuls, "merges products of one tensor into one product"},
      {"merge_parallel_convolutions", merge_parallel_convolutions,
       "merges convolutions of one tensor with equal windows"},
      {"remove_dead_nodes", remove_dead_nodes, "again: dead nodes of the last passes"},
      {"capture_constants", capture_constants,
       "moves constants into the bodies that read them, to be folded and packed"},
      {"rewrite_bodies", rewrite_bodies, "runs all of these passes on the bodies of branches and loops"},
  };
  return rows;
}

}  // namespace graft
