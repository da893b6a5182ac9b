/* SPDX-License-Identifier: Apache-2.0 */
/* For converters of your own: how an operator of a framework becomes operators of Graft (docs/ADDING_A_CONVERTER.md).
 *
 * A shared library shows one function, graft_converters. It links nothing of Graft's: all that a converter calls are
 * members of the graft_conversion that it is given. `graft compile model.pt2 --converters libmine.so` asks it, as does
 * the option `converters` of graft_compile and graft_host_partition_create.
 *
 *   static graft_status scaled(graft_conversion* c, void* context) {
 *     int32_t in[2] = {-1, -1}, out = -1;
 *     c->tensor(c, "x", &in[0]);
 *     c->tensor(c, "scale", &in[1]);              // a number becomes a tensor of rank 0
 *     graft_added_node node = {sizeof node, "Mul", NULL, in, 2, NULL, NULL, 0, &out, 1, NULL};
 *     c->add(c, &node);
 *     return c->give(c, &out, 1);
 *   }
 *   static const graft_converter rows[] = {{sizeof(graft_converter), "aten",
 *       "my::scaled(Tensor x, float scale=2.0) -> Tensor", 0, scaled, NULL, NULL}};
 *   static const graft_converter_list list = {sizeof list, GRAFT_CONVERTER_VERSION, rows, 1};
 *   const graft_converter_list* graft_converters(void) { return &list; }
 *
 * Failures. The first function that fails decides: what is called after it does nothing and gives the same status, so
 *   that a converter may look at the last one alone, and returns it. GRAFT_UNSUPPORTED is a refusal, whose reason is
 *   shown: the next converter of the operator is asked, and without one it stays with the framework. Any other
 *   status is the converter's fault and ends the compilation with an error that names operator, node and converter; so
 *   does a converter that throws, gives a wrong number of results, or results of other types than the graph states.
 * Lifetime. A graft_conversion and all that it hands out live until the converter returns.
 * Threads. A converter may be called from several threads at a time.
 * Versions. As graft_c.h says: structs that begin with `struct_size` get new members at their end. A library is refused
 *   when its GRAFT_CONVERTER_VERSION is another one. */
#ifndef GRAFT_GRAFT_CONVERTER_H
#define GRAFT_GRAFT_CONVERTER_H

#include "graft/graft_host.h"

#ifdef __cplusplus
extern "C" {
#endif

#define GRAFT_CONVERTER_VERSION 1

/* A node to be added. The operators are those of `graft ops`, ONNX's with few exceptions, and your own ones. */
typedef struct graft_added_node {
  size_t struct_size;
  const char* op;
  const char* domain;                    /* NULL: ONNX's */
  const int32_t* inputs;                 /* values; -1 leaves one out */
  size_t input_count;
  const char* const* attribute_names;
  const graft_host_argument* attributes; /* integers, reals, bools, texts, element types and lists of the first three;
                                            a value has to be a constant */
  size_t attribute_count;
  int32_t* outputs;                      /* is filled in with the values that it makes */
  size_t output_count;
  const char* definition; /* the text of an operator of your own (docs/OWN_OPERATORS.md), whose name `domain` and `op`
                             are; NULL: one of Graft's */
} graft_added_node;

/* One node that is to be converted, and the graph that is built of it. Values are numbers of that graph; types and
 * sizes are known as soon as a value is there, as far as they follow. Graft makes it; later versions add members. */
typedef struct graft_conversion graft_conversion;
struct graft_conversion {
  size_t struct_size;
  const char* op;     /* `my::scaled` */
  const char* name;   /* the node's, unique in its graph */
  const char* scope;  /* module path; "" where unknown */
  const char* source; /* the model's own line; "" where unknown */
  size_t result_count; /* results that the node has in its graph */

  /* Arguments by their names in the signature, with its defaults. `argument` gives any: values of tensors as
   * GRAFT_ARGUMENT_VALUE, numbers and lists of them that are known while compiling as what they are. The others refuse
   * what is known only while running, and what is of another kind. */
  graft_status (*argument)(graft_conversion* c, const char* name, graft_host_argument* argument);
  graft_status (*tensor)(graft_conversion* c, const char* name, int32_t* value); /* -1: None */
  graft_status (*tensors)(graft_conversion* c, const char* name, const int32_t** values, size_t* count);
  graft_status (*integer)(graft_conversion* c, const char* name, int64_t* integer);
  /* A list; one integer stands for `wanted` of them, where that is not 0. */
  graft_status (*integers)(graft_conversion* c, const char* name, size_t wanted, const int64_t** integers,
                           size_t* count);
  graft_status (*real)(graft_conversion* c, const char* name, double* real);
  graft_status (*flag)(graft_conversion* c, const char* name, int32_t* flag);
  graft_status (*text)(graft_conversion* c, const char* name, const char** text);
  graft_status (*type)(graft_conversion* c, const char* name, int32_t* dtype);
  /* A list of integers, which may be known only while running, as a tensor of int64 with one axis: what Reshape,
   * Expand and Slice take. */
  graft_status (*shape_tensor)(graft_conversion* c, const char* name, int32_t* value);

  /* Type and sizes: dtype 0 and rank -1 where they are unknown. */
  graft_status (*describe)(graft_conversion* c, int32_t value, const graft_value_info** info);
  /* Elements of a constant, row-major; refuses other values. Ask only where they are needed: weights are fetched. */
  graft_status (*content)(graft_conversion* c, int32_t value, graft_tensor* elements);

  /* Adds a constant (of `tensor`, dtype, rank, shape and data are read; data is copied) or an operator. What an
   * operator's definition rejects is a refusal. */
  graft_status (*constant)(graft_conversion* c, const graft_tensor* tensor, int32_t* value);
  graft_status (*add)(graft_conversion* c, graft_added_node* node);

  /* States the results, as many as the signature has behind `->`, or else the node. */
  graft_status (*give)(graft_conversion* c, const int32_t* values, size_t count);
  /* States the elements of a result that is a list of tensors. */
  graft_status (*give_list)(graft_conversion* c, const int32_t* values, size_t count);

  graft_status (*refuse)(graft_conversion* c, const char* reason); /* gives GRAFT_UNSUPPORTED */
  graft_status (*fail)(graft_conversion* c, const char* message);  /* gives GRAFT_INVALID_ARGUMENT */
};

/* How one operator is converted. */
typedef struct graft_converter {
  size_t struct_size;
  const char* frontend;  /* whose operators these are: `aten` */
  const char* signature; /* as the framework has it: `my::op(Tensor self, int[2] stride=1, *, bool b=True) -> Tensor` */
  int32_t priority;      /* the highest is asked first; Graft's own have 0, and come after yours of 0 */
  graft_status (*convert)(graft_conversion* conversion, void* context);
  void* context;
  void (*destroy)(void* context); /* NULL: nothing to do. Called once, when nobody can call `convert` any more */
} graft_converter;

/* What a shared library has. */
typedef struct graft_converter_list {
  size_t struct_size;
  int32_t version; /* GRAFT_CONVERTER_VERSION */
  const graft_converter* converters;
  size_t count;
} graft_converter_list;

/* The function that a library of converters shows as `graft_converters`. The list lives as long as the process. */
typedef const graft_converter_list* (*graft_converters_function)(void);

/* ---- For programs that link Graft ---- */

/* Makes converters known to all that this process compiles from now on; `id` (may be NULL) is for taking them back. The
 * texts are copied. `destroy` is also called for what is refused. `origin`: what messages call them, `libmine.so`. */
GRAFT_API graft_status graft_converters_add(const graft_converter* converters, size_t count, const char* origin,
                                            uint64_t* id, graft_error* error);
/* The same for a shared library, which stays loaded. */
GRAFT_API graft_status graft_converters_load(const char* path, uint64_t* id, graft_error* error);
/* Takes them back; compilations that have begun keep them. An unknown `id` is allowed. */
GRAFT_API void graft_converters_remove(uint64_t id);

#ifdef __cplusplus
}
#endif

#endif
