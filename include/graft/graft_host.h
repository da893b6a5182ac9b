/* SPDX-License-Identifier: Apache-2.0 */
/* For plug-ins of frameworks: hand in the framework's graph, learn which parts can become engines and why the others
 * cannot, and get the engines. Beside its framework's headers a plug-in includes this and graft_c.h, and nothing else.
 *
 *   graft_host_graph* graph;
 *   graft_host_graph_create("aten", &graph, &error);
 *   graft_host_value x = {sizeof x, "x", GRAFT_FLOAT32, 4, sizes, symbols, 1};
 *   int32_t input = graft_host_graph_add_value(graph, &x);            // and so on, then nodes in order
 *   graft_host_graph_add_node(graph, &node, &error);
 *   graft_host_graph_set_borders(graph, inputs, 1, outputs, 1, &error);
 *   graft_host_partition* partition;
 *   graft_host_partition_create(graph, options, option_count, &partition, &error);
 *   for (size_t i = 0; i < graft_host_partition_segment_count(partition); ++i)
 *     graft_host_partition_compile(partition, i, choices, choice_count, NULL, NULL, &engine, &error);
 *
 * Errors, texts and threads: as graft_c.h says. A graph and a partition are used by one thread at a time; a partition
 *   keeps what it needs of its graph. Structures that a plug-in fills in and that stand alone begin with their size, so
 *   that later versions can add members. */
#ifndef GRAFT_GRAFT_HOST_H
#define GRAFT_GRAFT_HOST_H

#include "graft/graft_c.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct graft_host_graph graft_host_graph;
typedef struct graft_host_partition graft_host_partition;

/* ---- The framework's graph ---- */

/* Bytes of a constant, row-major, asked for when they are needed, from any thread and by several at a time, also after
 * the graph has gone: by engines made of it. `fetch` may set `held` to what keeps the bytes; they stay valid until
 * `release`, which is called once for each successful `fetch`. `destroy` (NULL: nothing to do) is called once, when
 * nobody can fetch any more, also when the value was refused. */
typedef struct graft_host_constant {
  const void* (*fetch)(void* context, void** held);
  void (*release)(void* context, void* held);
  void (*destroy)(void* context);
  void* context;
} graft_host_constant;

/* What flows between nodes. */
typedef struct graft_host_value {
  size_t struct_size;
  const char* name;
  int32_t dtype;              /* 0: unknown; conversion finds out what it can */
  int32_t rank;               /* -1: unknown */
  const int64_t* sizes;       /* `rank` of them; -1 is symbolic */
  const char* const* symbols; /* names of symbolic sizes, `batch`; NULL when there are none */
  int32_t is_tensor;          /* 0: a number, list or object of the framework, which no engine takes or gives */
  const graft_host_constant* constant; /* NULL: not a parameter. Needs dtype, rank and sizes */
} graft_host_value;

/* Kinds of an argument, and the member that holds it. */
enum {
  GRAFT_ARGUMENT_NONE = 0,
  GRAFT_ARGUMENT_VALUE = 1,  /* integer: the value's index */
  GRAFT_ARGUMENT_INTEGER = 2,
  GRAFT_ARGUMENT_REAL = 3,
  GRAFT_ARGUMENT_BOOL = 4,   /* integer */
  GRAFT_ARGUMENT_TEXT = 5,
  GRAFT_ARGUMENT_TYPE = 6,   /* integer: an element type of graft_c.h */
  GRAFT_ARGUMENT_LIST = 7    /* list, count */
};
typedef struct graft_host_argument {
  int32_t kind;
  int64_t integer;
  double real;
  const char* text;
  const struct graft_host_argument* list;
  size_t count;
} graft_host_argument;

/* An operator, as the framework calls it. */
typedef struct graft_host_node {
  size_t struct_size;
  const char* op;     /* `aten::conv2d`, `aten::add.Tensor` */
  const char* name;   /* unique in the graph */
  const char* scope;  /* module path or name scope; NULL: none */
  const char* source; /* the model's own line; NULL: unknown */
  const graft_host_argument* arguments; /* by position */
  size_t argument_count;
  const char* const* attribute_names;   /* arguments by name */
  const graft_host_argument* attributes;
  size_t attribute_count;
  const int32_t* outputs; /* values that it makes */
  size_t output_count;
  const int32_t* after;   /* nodes that have to run before: side effects, writes in place, control edges */
  size_t after_count;
  int32_t counts;         /* 0: no real operator (packing a list, an identity) for the minimum size of a segment */
  int32_t replicable;     /* 1: cheap and without side effects: may be copied to both sides of a border */
  const char* kept;       /* why it stays with the framework, whatever converters there are (a write that others see,
                             control flow); NULL: the converters decide */
  /* Functions that it runs (branches, what a loop repeats), by the names that its converter has for them. A graph is
   * copied: what it takes are its borders' inputs, of which the converter knows what each one is, and need no type. */
  const char* const* body_names;
  const struct graft_host_graph* const* bodies;
  size_t body_count;
} graft_host_node;

/* `frontend`: whose operators these are: `aten`, `mxnet`, `tensorflow`. */
GRAFT_API graft_status graft_host_graph_create(const char* frontend, graft_host_graph** graph, graft_error* error);
GRAFT_API void graft_host_graph_destroy(graft_host_graph* graph); /* NULL is allowed */
/* Adds a value; sets `index`. */
GRAFT_API graft_status graft_host_graph_add_value(graft_host_graph* graph, const graft_host_value* value,
                                                  int32_t* index, graft_error* error);
/* Adds a node; its arguments are values that exist. Nodes come in an order in which they can run. */
GRAFT_API graft_status graft_host_graph_add_node(graft_host_graph* graph, const graft_host_node* node,
                                                 graft_error* error);
/* What the graph takes and gives, by values. */
GRAFT_API graft_status graft_host_graph_set_borders(graft_host_graph* graph, const int32_t* inputs, size_t input_count,
                                                    const int32_t* outputs, size_t output_count, graft_error* error);

/* States which sizes a symbol of the values can have, and the usual one; `max` 0: no bound. Without it there is none.
 * Engines are made for these ranges, and refuse other sizes. */
GRAFT_API graft_status graft_host_graph_set_range(graft_host_graph* graph, const char* symbol, int64_t min, int64_t opt,
                                                  int64_t max, graft_error* error);

/* ---- Mixed precision ---- */

/* What a node reads now where it read `value`: the value `now`, cast to `dtype`, or as it is where that is 0. */
typedef struct graft_host_reading {
  int32_t node;  /* GRAFT_READING_RESULT: a result of the graph; GRAFT_READING_PARAMETER: no reading, but the elements
                    of the parameter `value` are of `dtype` from now on */
  int32_t value;
  int32_t now;
  int32_t dtype;
} graft_host_reading;
enum { GRAFT_READING_RESULT = -1, GRAFT_READING_PARAMETER = -2 };

/* Decides what is cast so that the graph computes partly in f16 or bf16 (docs/AMP.md), and hands `take` the readings
 * that differ; they live during that call. The front end is `aten`. Types of values are those that the caller stated;
 * `request` is as of graft_convert_symbol, without data_names and input_dtypes; NULL: float16. A cast of a value to a
 * type is meant to be made once, whoever reads it. */
GRAFT_API graft_status graft_host_graph_mix(const graft_host_graph* graph, const char* request, void* context,
                                            void (*take)(void* context, const graft_host_reading* readings,
                                                         size_t count),
                                            graft_error* error);

/* ---- Which parts become engines ---- */

/* A part that runs as one engine. Its engine takes and gives the values in this order, constants left out. */
typedef struct graft_host_segment {
  const int32_t* nodes; /* in an order in which they can run */
  size_t node_count;
  const int32_t* inputs;
  size_t input_count;
  const int32_t* outputs;
  size_t output_count;
  int32_t size;         /* real operators */
  int64_t border_bytes; /* of inputs and outputs whose sizes are known */
} graft_host_segment;

/* Finds the parts. Options:
 *   minimum-size 3         real operators of a segment (default 1)
 *   minimum-gain 20        microseconds that a segment has to save by estimate: calls of operators that become one and
 *                          memory not written and read, less the engine's call (default: whatever it saves)
 *   most-segments 20       the largest so many are kept
 *   exclude-op aten::relu  an operator that stays with the framework; may come several times, as the next
 *   exclude conv1          a node, or all of a scope
 *   only backbone          a scope outside of which everything stays
 *   converters libmine.so  a shared library with converters (graft_converter.h), which is loaded; several times, too
 *   join true              as few segments as possible, of nodes that nothing connects, too
 *   ops FILE               definitions of operators of the user's own, a file or a text with line breaks
 *                          (docs/OWN_OPERATORS.md): each stands for the framework's operator of its name; may come
 *                          several times
 * An option that names nothing of the graph is an error. */
GRAFT_API graft_status graft_host_partition_create(const graft_host_graph* graph, const graft_option* options,
                                                   size_t option_count, graft_host_partition** partition,
                                                   graft_error* error);
GRAFT_API void graft_host_partition_destroy(graft_host_partition* partition); /* NULL is allowed */
GRAFT_API size_t graft_host_partition_segment_count(const graft_host_partition* partition);
/* NULL beyond the count; lives as long as the partition. */
GRAFT_API const graft_host_segment* graft_host_partition_segment(const graft_host_partition* partition, size_t index);
/* Why a node stays with the framework; empty when it does not; NULL beyond the graph's nodes. */
GRAFT_API const char* graft_host_partition_reason(const graft_host_partition* partition, size_t node);
/* The parts of a function of a node that stays with the framework, found in the same way: engines stand for parts
 * inside of it. NULL where there is no such function, where the node is in a segment, and where nothing is known of
 * what the function is given. Lives as long as the partition. */
GRAFT_API const graft_host_partition* graft_host_partition_body(const graft_host_partition* partition, size_t node,
                                                                const char* body);
/* A text for people: each segment with its nodes and borders, each other node with reason and source line. */
GRAFT_API const char* graft_host_partition_report(const graft_host_partition* partition);

/* Compiles a segment; options as of graft_compile, but for the sizes, which the graph states. A symbol whose range is a
 * single size, or that no input of the segment has, is none of the engine. */
GRAFT_API graft_status graft_host_partition_compile(const graft_host_partition* partition, size_t segment,
                                                    const graft_option* options, size_t option_count,
                                                    graft_progress_function progress, void* context,
                                                    graft_engine** engine, graft_error* error);

/* Writes a segment as an ONNX file, which any reader of ONNX takes: what an engine of it computes. */
GRAFT_API graft_status graft_host_partition_write_onnx(const graft_host_partition* partition, size_t segment,
                                                       const char* path, graft_error* error);

/* ---- Weights that engines have ---- */

/* Where an engine has parameters of the framework, so that what runs in the framework instead of the engine need not
 * keep them a second time: calls `take` with a text for each of the `weights` (row-major, in host memory, floats) whose
 * elements it has, whatever it made of them: in another order, beside others, or rounded to its precision. Weights that
 * it computed with (of a convolution that a normalisation follows) are not those of the framework any more. */
GRAFT_API graft_status graft_host_find_weights(const graft_engine* engine, const graft_tensor* weights, size_t count,
                                               void* context,
                                               void (*take)(void* context, size_t weight, const char* place),
                                               graft_error* error);
/* Writes the weight of a place of that engine, or of one that was loaded from its plan, to the memory behind `weight`,
 * which has the type and shape that it had. From any thread. */
GRAFT_API graft_status graft_host_read_weight(const graft_engine* engine, const char* place,
                                              const graft_tensor* weight, graft_error* error);

/* ---- Model files with engines in them, without the framework ---- */

typedef struct graft_embedding graft_embedding;

/* Rewrites a model so that engines stand for the parts that they can run; the model's bytes are never changed.
 * `format`: `tensorflow`, a GraphDef: engines are nodes of the operator GraftEngine, which libgraft_tensorflow.so adds
 *   to TensorFlow. All other nodes stay as their bytes are, but for what they are given.
 * `outputs`: what the model is asked for, by node or tensor. Options are those of graft_host_partition_create and of
 *   graft_compile (`shape` is that of an input of the graph, `dim` the range of an open size: `x_0` is axis 0 of x),
 *   usual x_0=8, what engines are made for where that size has no range, and strict true: a part whose engine cannot be
 *   built is an error; without it that part stays, which is counted. With build false no engine is built: nodes have
 *   no plan, and are for a plug-in that gives them what they build engines of. */
GRAFT_API graft_status graft_embed(const char* format, const void* bytes, size_t byte_count,
                                   const char* const* outputs, size_t output_count, const graft_option* options,
                                   size_t option_count, graft_progress_function progress, void* context,
                                   graft_embedding** embedding, graft_error* error);
GRAFT_API void graft_embedding_destroy(graft_embedding* embedding); /* NULL is allowed */
/* The rewritten model; its bytes live as long as the embedding. */
GRAFT_API const void* graft_embedding_bytes(const graft_embedding* embedding, size_t* byte_count);
GRAFT_API size_t graft_embedding_engine_count(const graft_embedding* embedding);
/* As graft_host_partition_report, and which engines could not be built. */
GRAFT_API const char* graft_embedding_report(const graft_embedding* embedding);

/* ---- Engines that a framework's graph names ---- */

/* Gives an engine a name that no other one has, in any process, for graphs that hold texts alone; it is kept until it
 * is withdrawn. With graft_embed, nodes of engines that learn (precision int8) have such a name, and no plan. */
GRAFT_API graft_status graft_host_publish_engine(graft_engine* engine, void* context,
                                                 void (*take)(void* context, const char* name), graft_error* error);
/* The engine of a name, to be released by the caller; NULL where this process has none. */
GRAFT_API graft_engine* graft_host_find_engine(const char* name);
GRAFT_API void graft_host_withdraw_engine(const char* name);

/* ---- A device's memory ---- */

/* All the memory of a device (`cpu`, `cuda`, `cuda:1`), whoever holds it, in bytes: what a framework's share of it is a
 * part of. Fails where there is no such device. */
GRAFT_API graft_status graft_host_device_memory(const char* device, uint64_t* bytes, graft_error* error);

/* ---- What runs in the framework although it was meant to be an engine ---- */

/* Counts it, and says so in the log, once for each `what` (the part) and `reason`. */
GRAFT_API void graft_host_count_fallback(const char* what, const char* reason);
/* How often that has been in this process. */
GRAFT_API uint64_t graft_host_fallback_count(void);

#ifdef __cplusplus
}
#endif

#endif
