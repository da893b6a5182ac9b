/* SPDX-License-Identifier: Apache-2.0 */
/* The C interface of Graft: everything that graft.h and other languages are built on.
 *
 * Errors. A function that can fail returns a graft_status, 0 for success, and describes a failure in the caller's
 *   graft_error (which may be NULL). Nothing throws and nothing ends the process.
 * Lifetime. An engine and a session are counted or owned handles: what graft_compile, graft_load and
 *   graft_session_create give must be handed to graft_engine_release or graft_session_destroy. A session keeps its
 *   engine alive. Texts that a function returns belong to the engine and live as long as it does.
 * Threads. An engine is immutable and may be used from any number of threads. A session is used by one thread at a
 *   time, but for graft_session_cancel, graft_session_run_async and graft_session_cancel_run; sessions of one engine
 *   run at the same time.
 * Versions. The soname is the ABI: within one, functions stay as they are, and structs too, but for new members at the
 *   end of those that begin with `struct_size`, and of those that the library alone makes and hands out by pointer. A
 *   program may be older than the library that it finds, and newer as far as it calls nothing that is missing there.
 * Units. Strides are in elements, shapes in elements, `bytes` in bytes; elements narrower than a byte share bytes,
 *   lowest bits first.
 *
 *   graft_error error;
 *   graft_engine* engine = NULL;
 *   if (graft_load("model.graft", &engine, &error)) { fprintf(stderr, "%s\n", error.message); return 1; }
 *   graft_session* session = NULL;
 *   graft_session_create(engine, 0, &session, &error);
 *   int64_t shape[] = {1, 4};
 *   float values[] = {1, 2, 3, 4};
 *   graft_tensor input = {0}, output = {0};
 *   input.struct_size = sizeof input, input.name = "x", input.dtype = GRAFT_FLOAT32;
 *   input.rank = 2, input.shape = shape, input.data = values, input.bytes = sizeof values;
 *   output.struct_size = sizeof output, output.name = "y";
 *   graft_session_run(session, &input, 1, &output, 1, NULL, &error);
 *   // output.data now holds the result, output.shape[0 .. output.rank-1] its sizes.
 *   graft_session_destroy(session);
 *   graft_engine_release(engine);
 */
#ifndef GRAFT_GRAFT_C_H
#define GRAFT_GRAFT_C_H

#include <stddef.h>
#include <stdint.h>

#if defined(_WIN32)
#define GRAFT_API
#else
#define GRAFT_API __attribute__((visibility("default")))
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* What went wrong, and so what the caller can do about it. */
enum {
  GRAFT_OK = 0,
  GRAFT_INVALID_MODEL = 1,    /* the model or plan is malformed */
  GRAFT_INVALID_ARGUMENT = 2, /* an option, name, shape or type that the caller gave is wrong */
  GRAFT_UNSUPPORTED = 3,      /* well-formed, but outside what Graft can do */
  GRAFT_DEVICE = 4,           /* the machine, the file system or a driver failed */
  GRAFT_OUT_OF_MEMORY = 5,    /* an allocation failed or a ceiling was reached */
  GRAFT_CANCELLED = 6,        /* the caller asked to stop */
  GRAFT_INTERNAL = 7          /* a bug of Graft's own */
};
typedef int32_t graft_status;

/* Filled in by a function that fails; otherwise untouched. A long message is cut at the end. */
typedef struct graft_error {
  graft_status status;
  char message[2044]; /* one line, ends with a zero: where, what, the remedy; control characters of names are escaped */
} graft_error;

/* Element types: the numbers of ONNX's TensorProto.DataType. */
enum {
  GRAFT_FLOAT32 = 1, GRAFT_UINT8 = 2, GRAFT_INT8 = 3, GRAFT_UINT16 = 4, GRAFT_INT16 = 5, GRAFT_INT32 = 6,
  GRAFT_INT64 = 7, GRAFT_STRING = 8, GRAFT_BOOL = 9, GRAFT_FLOAT16 = 10, GRAFT_FLOAT64 = 11, GRAFT_UINT32 = 12,
  GRAFT_UINT64 = 13, GRAFT_COMPLEX64 = 14, GRAFT_COMPLEX128 = 15, GRAFT_BFLOAT16 = 16, GRAFT_FLOAT8E4M3FN = 17,
  GRAFT_FLOAT8E4M3FNUZ = 18, GRAFT_FLOAT8E5M2 = 19, GRAFT_FLOAT8E5M2FNUZ = 20, GRAFT_UINT4 = 21, GRAFT_INT4 = 22,
  GRAFT_FLOAT4E2M1 = 23, GRAFT_FLOAT8E8M0 = 24, GRAFT_UINT2 = 25, GRAFT_INT2 = 26
};

typedef struct graft_engine graft_engine;
typedef struct graft_session graft_session;

/* `0.1.0` */
GRAFT_API const char* graft_version(void);

/* ---- Logging ---- */

/* 0 errors, 1 warnings (the start value), 2 steps, 3 reasons, 4 choices, 5 details, 6 everything. */
typedef void (*graft_log_function)(void* context, int32_t level, const char* message);
/* Sends the messages of the process up to `level` to `log`, one at a time, from any thread; a NULL `log` restores
 * standard error. `log` must not call into Graft. */
GRAFT_API void graft_set_log(graft_log_function log, void* context, int32_t level);

/* ---- Compiling, loading, saving ---- */

/* A choice, spelled as on the command line without the dashes; a key may come several times:
 *   dim      batch=8 | batch=1:8:64         a named size of the model, fixed or min:opt:max; batch=1:8,1,32:64 has
 *                                           several optima: choices are made for each, and a run takes those of the
 *                                           smallest that is not below its size, or else of the largest
 *   shape    x:1x3x224x224                  the shape of an input, fixed
 *   min-shape, opt-shape, max-shape x:1x16  the ranges of an input's symbolic axes
 *   threads  2                              threads that the plan is made for; 0: all that this process can use
 *   tune     off | fast | full              how long candidates are measured
 *   precision fp32 | tf32 | fp16 | bf16 | auto   what an f32 network computes in; its inputs and outputs stay f32
 *   fp32-units any | fma                    whether f32 products may run on matrix units that split their operands,
 *                                           with an error not above that of multiply-adds
 *   target   native | x86-64-v3 | sm_90a    the machine to compile for, which need not be here: an engine for another
 *                                           one can be described and saved, and its sessions are refused; several
 *                                           times: a plan for several, and the engine for the first
 *   device   cpu | cuda | cuda:1            what runs the engine here
 *   ops      own.graftops | library.onnx    own operators: a file, or the text of definitions (docs/OWN_OPERATORS.md)
 *   overridable weight                      of an ONNX model: an input that has an initializer stays an input, which
 *                                           each run gives; several times
 *   converters libmine.so                   rows for operators of a .pt2 that Graft does not know: a shared library
 *                                           (docs/ADDING_A_CONVERTER.md), which is loaded, so it has to be trusted
 *   params   net-0000.params                the parameters of a symbol of MXNet
 *   signature serving_default               of a SavedModel: what it is asked for
 *   tag      serve                          of a SavedModel: the graph that has all of the tags; several times
 *   outputs  softmax,split:1                of a GraphDef: what it is asked for
 *   record   model.record                   choices of an earlier compilation, taken where they fit
 *   metadata owner=vision                   a key and a value for the plan (graft_engine_metadata), which change
 *                                           nothing else; several times
 *   deadline 60                             seconds after which compiling stops with the error `cancelled`; 0: never
 *   mode     generated | interpret          interpret: no generated kernels and no library, for checking
 *   disable  merge_parallel_matmuls,onednn  passes and candidates to leave out
 */
typedef struct graft_option {
  const char* key;
  const char* value;
} graft_option;

/* Tells how far compiling is: step `done` of `total` (0 when unknown) of a stage. Another result than 0 cancels. In a
 * long step it is called again, about ten times a second, with the same arguments. */
typedef int32_t (*graft_progress_function)(void* context, const char* stage, const char* step, int32_t done,
                                           int32_t total);

/* Compiles an ONNX file for the options. `progress` may be NULL. */
GRAFT_API graft_status graft_compile(const char* path, const graft_option* options, size_t option_count,
                                     graft_progress_function progress, void* context, graft_engine** engine,
                                     graft_error* error);
/* The same from memory, of an ONNX file or a GraphDef; the bytes are not used after the call. External data is looked
 * for below `directory`; with NULL it is refused. */
GRAFT_API graft_status graft_compile_bytes(const void* bytes, size_t byte_count, const char* directory,
                                           const graft_option* options, size_t option_count,
                                           graft_progress_function progress, void* context, graft_engine** engine,
                                           graft_error* error);
/* Loads a plan on the device that it was made for where that is here, else on the CPU. Kernels come from the kernel
 * cache, and are compiled where it lacks them. The file stays mapped while
 * the engine lives, so it must not be written to meanwhile (`cp new.graft model.graft` does; a rename, `mv` within a
 * file system and graft_engine_save replace it, which is safe): a run that begins after a write fails with
 * GRAFT_DEVICE, one that goes on during it may give wrong results, and truncating the file may end the process. Load it
 * with copied weights where that cannot be ruled out. */
GRAFT_API graft_status graft_load(const char* path, graft_engine** engine, graft_error* error);
/* The same on a device: `cpu`, `cuda` or `cuda:1`, the GPU's number as the driver counts. */
GRAFT_API graft_status graft_load_on(const char* path, const char* device, graft_engine** engine, graft_error* error);
/* The same with choices, of which a plan takes:
 *   device   auto | cpu | cuda | cuda:1     auto, as without it: what the plan was made for
 *   threads  2                              of the CPU; 0: as many as the plan was made for, and no more than the
 *                                           process can use (its affinity mask, its container's quota)
 *   weights  mapped | copied                in the file, shared with other processes, or in memory of this one: then
 *                                           the file may change after loading */
GRAFT_API graft_status graft_load_with(const char* path, const graft_option* options, size_t option_count,
                                       graft_engine** engine, graft_error* error);
/* The same from memory, for plans that another file holds. `release`: called with `context` once nothing reads the
 * bytes any more, from any thread, also when loading fails; they are then used where they lie if their address is a
 * multiple of 64. With a NULL `release` they are copied. `weights` is no choice here. */
GRAFT_API graft_status graft_load_bytes(const void* bytes, size_t byte_count, void (*release)(void* context),
                                        void* context, const graft_option* options, size_t option_count,
                                        graft_engine** engine, graft_error* error);
/* Writes a plan; `path` holds the old file or the whole new one at any moment. */
GRAFT_API graft_status graft_engine_save(const graft_engine* engine, const char* path, graft_error* error);
/* The same to memory: `allocate` is asked once for so many bytes, which it may refuse with NULL. */
GRAFT_API graft_status graft_engine_save_bytes(const graft_engine* engine,
                                               void* (*allocate)(void* context, size_t bytes), void* context,
                                               graft_error* error);

/* Whether choices are spelt as graft_compile takes them, before there is anything to compile: GRAFT_INVALID_ARGUMENT
 * names the first one that is not, and what there is. */
GRAFT_API graft_status graft_check_options(const graft_option* options, size_t option_count, graft_error* error);

/* Compiles a model as far as needed to say how each step will run, or which nodes cannot run and why, and hands the
 * answer to `take` as a JSON object, which lives during that call:
 *   nodes, nodes_after_passes: of the model, and after the passes
 *   obstacles [{node, operator, reason}]: what cannot run; where there is any, `steps` is empty
 *   ways, steps: as graft_engine_describe has them
 *   reasons [text]: what the passes left as it is, and why
 * The cost model chooses, and no code is generated, unless the options ask for it: `tune` fast or full, or `generate`
 * yes (no), which only this function knows. `bytes` NULL: the model is the file `path`; otherwise `path` is as
 * `directory` of graft_compile_bytes. */
GRAFT_API graft_status graft_check(const char* path, const void* bytes, size_t byte_count, const graft_option* options,
                                   size_t option_count, graft_progress_function progress, void* context,
                                   void (*take)(void* context, const char* json), graft_error* error);

GRAFT_API graft_engine* graft_engine_retain(graft_engine* engine);
GRAFT_API void graft_engine_release(graft_engine* engine); /* NULL is allowed */

/* How often this process has asked a code generator for kernels: it stays as it is once all engines are loaded. */
GRAFT_API uint64_t graft_compilation_count(void);

/* ---- Counters of the process ---- */

/* GRAFT_COUNTER: only grows. */
enum { GRAFT_COUNTER = 0, GRAFT_GAUGE = 1 };

/* A number that is counted in this process, without any setting. */
typedef struct graft_metric {
  const char* name;   /* as Prometheus spells it: `graft_runs_total`, `graft_run_seconds_total` */
  const char* help;   /* one sentence on what it counts */
  int32_t kind;       /* GRAFT_COUNTER or GRAFT_GAUGE */
  const char* engine; /* the model's name, of all its engines together; NULL for a number of the process */
  const char* device; /* of the engine: `cpu`, `cuda`, `cuda:1`; NULL with `engine` */
  double value;
} graft_metric;
/* Calls `take` for each metric, those of one name together; it lives during the call. From any thread, while others
 * run, compile and load.
 *   of the process: graft_kernel_compilations_total, graft_kernel_compile_seconds_total, graft_kernel_cache_hits_total,
 *     graft_kernel_cache_misses_total, graft_host_fallbacks_total
 *   of an engine: graft_engines, graft_sessions (that live), graft_runs_total, graft_run_failures_total,
 *     graft_run_cancellations_total, graft_run_seconds_total (on a GPU until the work is queued),
 *     graft_interpreted_steps_total (steps without a kernel), graft_arena_bytes (of intermediate results)
 * A version may have more. What was counted of an engine stays when it is released; after a thousand names others
 * count as `other`. */
GRAFT_API graft_status graft_metrics(void (*take)(void* context, const graft_metric* metric), void* context,
                                     graft_error* error);
/* Hands the same to `take` as text for Prometheus (exposition format 0.0.4), with the version as
 * `graft_build_info{version="..."} 1`; the text lives during the call. */
GRAFT_API graft_status graft_metrics_text(void (*take)(void* context, const char* text), void* context,
                                          graft_error* error);

/* ---- What an engine takes and gives ---- */

/* An axis of an input or output. */
typedef struct graft_axis {
  int64_t size;         /* -1 when it depends on the run */
  const char* text;     /* `384`, `batch`, `2*length` */
  int64_t min, opt, max; /* of a symbol, as the engine was compiled; max 0 is unbounded, of several optima the first */
} graft_axis;

typedef struct graft_value_info {
  const char* name;
  int32_t dtype;
  int32_t rank;
  const graft_axis* axes; /* `rank` of them */
  const char* type;       /* NULL for a tensor; else `seq(f32[2, n])`, `optional(...)`, `map(i64, f32)`: a graft_value,
                             of dtype and rank 0 */
} graft_value_info;

GRAFT_API size_t graft_engine_input_count(const graft_engine* engine);
GRAFT_API size_t graft_engine_output_count(const graft_engine* engine);
/* What runs it: `cpu`, `cuda` or `cuda:1`; lives as long as the engine. */
GRAFT_API const char* graft_engine_device(const graft_engine* engine);

/* `index` below the count; NULL otherwise. */
GRAFT_API const graft_value_info* graft_engine_input(const graft_engine* engine, size_t index);
GRAFT_API const graft_value_info* graft_engine_output(const graft_engine* engine, size_t index);

/* The engine as a JSON object, for tools:
 *   name, target, threads, options [{key, value}], symbols{name: {min, opt, max}}, constant_bytes, computed_sizes
 *   inputs, outputs [{name, dtype, shape[text]}]
 *   ways {generated, library, host, control, interpreter, folded, none}: how many steps run which way, those of bodies
 *     included; `folded` counts outputs that were computed while compiling, `none` steps without work at run time
 *   steps [{name, nodes[], operators[], way, library, kernel, schedule, candidates [{name, milliseconds, reason}],
 *     bodies[]}]; milliseconds are null where nothing was measured, a body is an array of steps
 *   optima [{sizes{name: size}, same_as, steps}]: where a dimension has several, one for each combination; `steps` are
 *     those of the first, and `same_as` is the number of one with the same steps, or null
 * The command's --json uses the same names (docs/schemas). */
GRAFT_API const char* graft_engine_describe(const graft_engine* engine);

/* Where the engine comes from, and what its maker says of it: a JSON object {key: text}, which a plan keeps.
 *   graft.source, graft.source_sha256, graft.source_bytes: the name of the model's file, and its bytes, without
 *     external data; graft.made: when it was compiled, `2026-11-30T13:28:00Z`, if the environment variable
 *     SOURCE_DATE_EPOCH said so then; graft.version: of the compiler; model.KEY: what the model's file says of
 *     itself (metadata_props of ONNX)
 *   others: pairs of the option `metadata`
 * What is not known is missing, all but the version in plans of frameworks and of older versions. */
GRAFT_API const char* graft_engine_metadata(const graft_engine* engine);

/* ---- Running ---- */

/* Where the memory of a tensor lies; the numbers of DLPack's DLDeviceType, and 0 for the host too. */
enum { GRAFT_HOST = 0, GRAFT_CPU = 1, GRAFT_CUDA = 2, GRAFT_CUDA_HOST = 3 };

/* A sequence, an optional, a map, or a tensor where one of those may be. Immutable; counted like engines, and used from
 * any number of threads. */
typedef struct graft_value graft_value;

/* An element of a tensor of GRAFT_STRING, in UTF-8 or any other bytes; no zero at the end. */
typedef struct graft_text {
  const char* data;
  size_t bytes;
} graft_text;

/* A tensor in the caller's memory. The elements of GRAFT_STRING are graft_texts, row-major and on the host; the texts
 * of an output lie in the session until its next run. */
typedef struct graft_tensor {
  size_t struct_size;     /* sizeof(graft_tensor), the same for all of a call: members may follow in later versions */
  const char* name;       /* of the input or output; NULL: by its position in the call */
  int32_t dtype;
  int32_t rank;
  const int64_t* shape;   /* `rank` sizes */
  const int64_t* strides; /* `rank` strides in elements; NULL: row-major */
  void* data;             /* any alignment; inputs are only read */
  uint64_t bytes;         /* of the memory behind `data`; checked when not 0 */
  int32_t device;         /* where `data` lies, or where an output without data is wanted: on the host (0), or
                             GRAFT_CUDA: on the GPU of an engine that was loaded on one */
  graft_value* value;     /* of an input or output that is no tensor; then all but struct_size and name is not read. Of
                             an output it is filled in and lives until the session's next run: retain it to keep it */
} graft_tensor;

/* What a value is. */
enum { GRAFT_NOTHING = 0, GRAFT_TENSOR = 1, GRAFT_SEQUENCE = 2, GRAFT_MAP = 3 };

/* Makes a value of a copy of a tensor (host memory; `name` is not read); of elements, which are retained; and of the
 * keys of a map (i64 or GRAFT_STRING, along one axis) and its values, a tensor with a first axis as long. An optional
 * that is empty is a value of nothing; one that is not is what is in it. */
GRAFT_API graft_status graft_value_of_tensor(const graft_tensor* tensor, graft_value** value, graft_error* error);
GRAFT_API graft_status graft_value_of_sequence(graft_value* const* elements, size_t count, graft_value** value,
                                               graft_error* error);
GRAFT_API graft_status graft_value_of_map(const graft_tensor* keys, const graft_tensor* values, graft_value** value,
                                          graft_error* error);
GRAFT_API graft_status graft_value_of_nothing(graft_value** value, graft_error* error);
GRAFT_API graft_value* graft_value_retain(graft_value* value);
GRAFT_API void graft_value_release(graft_value* value); /* NULL is allowed */

/* GRAFT_NOTHING ... GRAFT_MAP */
GRAFT_API int32_t graft_value_kind(const graft_value* value);
/* How many elements a sequence has, 2 for a map, else 0. */
GRAFT_API size_t graft_value_count(const graft_value* value);
/* An element of a sequence, or the keys (0) and values (1) of a map. It lives as long as `value`; NULL when there is
 * none. */
GRAFT_API graft_value* graft_value_element(graft_value* value, size_t index);
/* Describes a value that is a tensor: dtype, rank, shape, data and bytes are filled in and live as long as `value`. */
GRAFT_API graft_status graft_value_tensor(graft_value* value, graft_tensor* tensor, graft_error* error);

/* The shape that output `output` gets from inputs of these types and shapes (of a graft_tensor, `name`, `dtype`, `rank`
 * and `shape` are read): its sizes, graft_engine_output(engine, output)->rank of them; -1 where the values of tensors
 * decide. Fails as a run of such inputs would. */
GRAFT_API graft_status graft_engine_output_shape(const graft_engine* engine, const graft_tensor* inputs,
                                                 size_t input_count, size_t output, int64_t* shape,
                                                 graft_error* error);

/* Gives memory to the output at position `output` of the call; NULL when there is none. It stays the caller's. */
typedef struct graft_allocator {
  void* (*allocate)(void* context, int32_t output, int32_t dtype, int32_t rank, const int64_t* shape, size_t bytes);
  void* context;
} graft_allocator;

/* A session is what one run at a time needs: arena, scratch, bound sizes. `threads` 0: as many as the engine was
 * compiled or loaded with. */
GRAFT_API graft_status graft_session_create(graft_engine* engine, int32_t threads, graft_session** session,
                                            graft_error* error);
/* NULL is allowed. Asynchronous runs that have not ended are cancelled, and it returns when `done` of each has. Called
 * from a `done` of the session it returns at once, and the session ends after those. */
GRAFT_API void graft_session_destroy(graft_session* session);

/* Runs once and returns when the outputs are written: on the calling thread and the thread team, or on a GPU. When all
 * outputs that are wanted lie on the GPU it returns as soon as the work is queued on the stream, like a kernel launch;
 * what kernels find wrong then (an index out of range) is told by graft_session_wait, or by a later run that waits.
 * `inputs`: each input of the engine once, by name or in order; never changed, whatever its strides.
 * `outputs`: those that are wanted, by name or in order. One with `data` must have the right dtype, rank and shape (the
 *   result is written in place, with its strides). One without gets memory from `allocator`, or, when that is NULL,
 *   from the session, where it stays until the session's next run or its end; dtype, rank, shape, data and bytes are
 *   then filled in (`shape` lives until the next run; `strides` becomes NULL, row-major). Set `data` to NULL again
 *   before the next run. Of an output that is no tensor `value` is filled in.
 * Row-major memory that is aligned to its elements is used in place; strides (negative and 0 too) and odd addresses
 *   cost a copy through memory of the session. Elements narrower than a byte must be row-major.
 * On a GPU its memory is used in place too: row-major, and copied there unless aligned to 16 bytes. Its inputs may
 *   change when the work has finished, in the order of the stream. Host memory is copied to and fro.
 * Overlap. Inputs may share memory with each other. An output may share memory with inputs: it is then written through
 *   a copy after the last step has read them, so that the results are the same. What the session gave an output may be
 *   an input of its next run. Two outputs may not share memory, nor may elements of one: two row-major buffers that
 *   overlap and an axis of stride 0 are errors, and of other strides that overlap one element's value is left there.
 * After the first run of the same shapes nothing is allocated, unless sizes are known only while running or a step is
 *   interpreted. On a GPU the second run of the same shapes in the same memory records its launches as a CUDA graph,
 *   which later ones replay; the last four places of a shape are remembered. */
GRAFT_API graft_status graft_session_run(graft_session* session, const graft_tensor* inputs, size_t input_count,
                                         graft_tensor* outputs, size_t output_count,
                                         const graft_allocator* allocator, graft_error* error);

/* What an asynchronous run calls at its end, once: `message` is empty after GRAFT_OK, else what graft_error would say,
 * and lives during the call. */
typedef void (*graft_run_function)(void* context, graft_status status, const char* message);
/* Runs as graft_session_run does, but returns at once; `done` is called with `context` when the outputs are written and
 * filled in, on a GPU too, or when the run has failed. Where this function itself fails, as in a `done` while the
 * session is ending (GRAFT_CANCELLED), `done` is not called.
 * Threads. The first such run of a session starts a thread for it (GRAFT_DEVICE if the system gives none), which sleeps
 *   between runs. It runs them one after another in the order of the calls, with the thread team as any caller, and
 *   calls `done`. Runs of different sessions go on at the same time. This function may be called from any thread, also
 *   during another call of it or of graft_session_run, and from `done`.
 * Lifetime. `inputs`, `outputs`, `allocator` and all that they point to have to stay as they are until `done` is
 *   called, which may be before this function returns. What the session gives an output stays until its next run:
 *   where one is waiting, until `done` returns. Give `data` or an allocator to keep it longer.
 * Other calls. graft_session_run, _wait, and what sets or reads something of the session wait until all asynchronous
 *   runs have ended. Called from `done`, where the session is that thread's, they do not wait; graft_session_wait
 *   is the way to wait for all.
 * Cancelling. graft_session_cancel ends all asynchronous runs that were called for before it, those too that have not
 *   begun, with GRAFT_CANCELLED. `run`, unless it is NULL, takes the run's number before it begins:
 *   graft_session_cancel_run ends that one alone. A deadline counts from the begin of each run.
 * `done` must not throw; an exception of C++ is logged. Not while the session's stream is being captured. In a child
 * after fork `done` of earlier runs is not called, and later ones have a thread of their own. */
GRAFT_API graft_status graft_session_run_async(graft_session* session, const graft_tensor* inputs, size_t input_count,
                                               graft_tensor* outputs, size_t output_count,
                                               const graft_allocator* allocator, graft_run_function done,
                                               void* context, uint64_t* run, graft_error* error);
/* Ends one asynchronous run, begun or not, as graft_session_cancel does; nothing where it has ended. From any thread
 * while the session lives, not from a signal handler. */
GRAFT_API void graft_session_cancel_run(graft_session* session, uint64_t run);

/* Puts the following runs into the order of `stream` (a cudaStream_t or CUstream of the engine's GPU; the default one
 * is cudaStreamLegacy, (void*)1): what it holds before a run comes first, what is queued there later waits for the run.
 * NULL: no order but the session's own. The stream must live until the session has another or ends. No effect on a
 * CPU. */
GRAFT_API graft_status graft_session_set_stream(graft_session* session, void* stream, graft_error* error);
/* Whether a run went into a CUDA graph, because the stream was being captured (cudaStreamBeginCapture): 1 or 0. Its
 * memory then belongs to that graph: the session has to live as long as the graph, and must not run anything else.
 * The run that is captured may be the session's first; its inputs have to lie on the GPU. */
GRAFT_API int32_t graft_session_was_captured(const graft_session* session);
/* Returns when all runs have finished, with the first error that their kernels found; the session stays usable. */
GRAFT_API graft_status graft_session_wait(graft_session* session, graft_error* error);
/* The most bytes that the session may hold beside the engine's constants: intermediate results, scratch memory, copies
 * of inputs and outputs, outputs that it gives, what interpreted steps compute with; 0: no limit. A run that would need
 * more fails with GRAFT_OUT_OF_MEMORY, naming what for, how much and the limit; the session stays usable. */
GRAFT_API void graft_session_set_memory_limit(graft_session* session, uint64_t bytes);
/* Gives a run memory for intermediate results and scratch: at least so many bytes, at any address, that nothing else
 * uses until the run returns, or NULL. Called on the thread that calls graft_session_run. */
typedef void* (*graft_scratch_function)(void* context, size_t bytes);
/* Has the following runs take that memory from `allocate`, which each asks at most once, instead of holding their own:
 * so that several engines share what a framework has for it. It does not count against the session's limit, and what
 * the session held before is freed. Where `allocate` gives NULL, where sizes are known only while running, inside
 * bodies of branches and loops, and on a GPU, a run takes the session's own. `allocate` NULL: always the session's own,
 * as at first. `context` has to live until the last run that uses it; not during a run. */
GRAFT_API void graft_session_set_scratch(graft_session* session, graft_scratch_function allocate, void* context);
/* Ends the run that is going on in the session, which returns GRAFT_CANCELLED within milliseconds on a CPU (a library's
 * call, and on a GPU what is queued already, finishes first). What its outputs hold is undefined; the session stays
 * usable. No effect between runs: a run that has not begun is not ended, unless it is an asynchronous one. From any
 * thread, and from a signal handler, while the session lives. */
GRAFT_API void graft_session_cancel(graft_session* session);
/* The most seconds that each following run may take before it is ended like this; 0: as long as it needs. */
GRAFT_API graft_status graft_session_set_deadline(graft_session* session, double seconds, graft_error* error);

/* Turns the recording of times per step on (1) or off (0) for the following runs. */
GRAFT_API void graft_session_set_profiling(graft_session* session, int32_t on);
/* One step's time in the last profiled run, in microseconds from its start. */
typedef struct graft_step_time {
  const char* name; /* the model's node name; lives as long as the engine */
  double begin_us, end_us;
} graft_step_time;
/* Copies up to `capacity` times and returns how many there are. */
GRAFT_API size_t graft_session_profile(const graft_session* session, graft_step_time* times, size_t capacity);
/* Bytes of the memory that intermediate results of the last run took. */
GRAFT_API uint64_t graft_session_arena_bytes(const graft_session* session);

/* ---- Quantising ---- */

/* Samples of a model's inputs, and how good a network is. The thread that called graft_quantize calls both functions;
 * they may call into Graft. One that fails fills in `error->message`; the status is then GRAFT_INVALID_ARGUMENT, unless
 * it sets another. */
typedef struct graft_calibration {
  size_t struct_size; /* sizeof(graft_calibration): members may follow in later versions */
  void* context;      /* of both functions */
  size_t count;       /* of batches; 0: until there is none */
  /* NULL where a calibration file is enough. Gives batch `index`: 1 when it is there, 0 when there is none any more,
   * -1 when it failed. Indices go from 0 on, and again from 0 for each network that is measured. `tensors` has one for
   * each input of the model, in its order, with the input's name: dtype, rank, shape and data are to be filled in, and
   * the data, row-major in host memory, has to stay until the next call. A tensor is one sample (without the first axis
   * of the input) or any number of them. */
  int32_t (*batch)(void* context, size_t index, graft_tensor* tensors, size_t tensor_count, graft_error* error);
  /* NULL, or: gives how good a network is, more being better, in `score`, a finite number: 0, or -1 when it failed.
   * Asked for the model in f32 and for each quantised network that is tried; `network` runs on the CPU, and lives as
   * long as the call unless it is retained. */
  int32_t (*metric)(void* context, graft_engine* network, double* score, graft_error* error);
} graft_calibration;

/* A quantised model with the report on it. Used by one thread at a time. */
typedef struct graft_quantized graft_quantized;

/* Quantises a model's products, by samples of its inputs or without (docs/PRECISION.md). `bytes` NULL: the model is the
 * file `path`; otherwise `path` is as `directory` of graft_compile_bytes. Options are those of graft_compile, and:
 *   weights    int8 | fp8 | int4   with a scale for each result, which of fp8 (e4m3) is a power of two, or for each
 *                         block of a column (int8)
 *   activations  static | dynamic | float   of 8 bits by ranges of samples; of 8 bits, each row by its own range
 *                         in each run; as they are. Only static ones need samples (static; with int4 always float,
 *                         with fp8 never dynamic)
 *   precision  auto       the fastest of fp32, lower floats and int8 within max-error or max-drop, by measured times on
 *                         `device`; without samples by random inputs. The report has all that were tried
 *   block      16 | 32 | 64 | 128 | 256   of int4: weights of a column that share a scale (32)
 *   method     mse | entropy | percentile | minmax   how ranges are chosen (as in the calibration file, else mse,
 *                         of fp8 minmax)
 *   calibration-file  F.json   of ranges: read when it is there, and refused when it is of another network or method;
 *                         else written. Calibration caches of TensorRT are read, too. With it `calibration` may be
 *                         NULL, or have no `batch`: then the error is not measured
 *   max-error  0.02       the largest difference from f32, as a share of an output's range. The result is the fastest
 *                         of the networks that are measured and hold it, in which layers may stay floats (f32, in
 *                         engines also a type of 16 bits that the machine multiplies faster). If none with a
 *                         quantised layer holds it, the call fails with GRAFT_UNSUPPORTED, naming the best found and
 *                         its time
 *   max-drop   0.5        the same for what the metric may lose against the model in f32
 *   search-limit  300     seconds after which the search takes the best that it has
 *   smooth     auto | off  with samples, outlying channels of activations are moved into the weights that read them
 *                         (SmoothQuant), if less noise remains (auto)
 *   rounding   auto | nearest   of int4 with samples: so that the products of the samples stay near (GPTQ), or to the
 *                         nearest codes (auto)
 *   min-snr    20         decibels of signal to noise that each output keeps on the samples without a bound: the
 *                         noisiest layers stay f32 until it does. 0: all layers are quantised (20; of int4 0)
 *   per-layer  0 | 1      measure what each layer adds to the error and wins also without a bound (0)
 * `progress` may be NULL; it is called before each batch. */
GRAFT_API graft_status graft_quantize(const char* path, const void* bytes, size_t byte_count,
                                      const graft_option* options, size_t option_count,
                                      const graft_calibration* calibration, graft_progress_function progress,
                                      void* context, graft_quantized** quantized, graft_error* error);
GRAFT_API void graft_quantized_destroy(graft_quantized* quantized); /* NULL is allowed */
/* What became of each layer and what it costs, as a JSON object (docs/schemas/interface/graft_quantized_report.json)
 * and as a table in text; both live as long as `quantized`. */
GRAFT_API const char* graft_quantized_report(const graft_quantized* quantized);
GRAFT_API const char* graft_quantized_text(const graft_quantized* quantized);
/* Writes the model as ONNX with QuantizeLinear and DequantizeLinear: to a file, which is replaced whole or not at all
 * (weights that are too large for it are beside it), and to memory, as graft_engine_save_bytes does. */
GRAFT_API graft_status graft_quantized_save(const graft_quantized* quantized, const char* path, graft_error* error);
GRAFT_API graft_status graft_quantized_save_bytes(const graft_quantized* quantized,
                                                  void* (*allocate)(void* context, size_t bytes), void* context,
                                                  graft_error* error);
/* Compiles it for the options that graft_quantize had. `progress` may be NULL. */
GRAFT_API graft_status graft_quantized_compile(const graft_quantized* quantized, graft_progress_function progress,
                                               void* context, graft_engine** engine, graft_error* error);

/* ---- Engines that learn to be of 8 bits ---- */

/* With precision auto, graft_compile and graft_host_partition_compile take `max-error`, which they need, and
 * `search-limit`: the engine is of the fastest precision within the bound, by random inputs, as of graft_quantize, and
 * graft_engine_quantization_report has what was tried.
 * With precision int8, fp8 or int4, graft_compile and graft_host_partition_compile take `activations`, `block`,
 * `method`, `calibration-file` and `max-error` as graft_quantize does. With static activations also
 *   calibration-iters 16  runs that calibrate it; 0: until graft_engine_finish_calibration
 * A model that is quantised already, and one whose ranges the file has, become an engine of 8 bits at once. Otherwise
 * the engine learns: it runs in f32, on the processor, from the host's memory, counts its activations in each run, and
 * keeps the inputs of the first runs (64 samples, 64 MiB) to measure the error with. Then it changes over: its sessions
 * run in 8 bits from their next run on, and the file, where there is to be one, is written. What cannot become int8
 * after so many runs stays f32, which is counted (graft_host_fallback_count) and logged. Of several threads that run
 * while it learns, one runs at a time. A plan that is saved meanwhile is that of f32. */

/* How many runs have calibrated it; -1: it does not learn, or has changed over. */
GRAFT_API int64_t graft_engine_calibration_runs(const graft_engine* engine);
/* Ends the calibration: the engine changes over, and `quantized` (NULL: not wanted) becomes a handle of what it is now,
 * to be released by the caller; whoever keeps that alone frees what was calibrated. Errors are those of graft_quantize,
 * and the engine learns on. Nothing happens to an engine that does not learn. */
GRAFT_API graft_status graft_engine_finish_calibration(graft_engine* engine, graft_progress_function progress,
                                                       void* context, graft_engine** quantized, graft_error* error);
/* As graft_quantized_report and graft_quantized_text, of an engine that was quantised here; `null` and empty for
 * others. They live as long as the engine. */
GRAFT_API const char* graft_engine_quantization_report(const graft_engine* engine);
GRAFT_API const char* graft_engine_quantization_text(const graft_engine* engine);

/* ---- Mixed precision ---- */

/* Makes a symbol of MXNet, given as its JSON, one of mixed precision (docs/AMP.md). `request`: JSON with the keyword
 * arguments of Python's graft.amp.convert_model, or NULL. `parameters`: the parameters by name, in host memory,
 * row-major; one without data is judged by its type alone. With NULL they are found by where they stand.
 * Hands the new symbol to `take`, and as a JSON object what was done; both texts live during that call:
 *   amp_cast, amp_multicast: how many were inserted
 *   parameters {name: type}: what each is to be converted to, by the caller */
GRAFT_API graft_status graft_convert_symbol(const char* symbol, const char* request, const graft_tensor* parameters,
                                            size_t parameter_count, void* context,
                                            void (*take)(void* context, const char* symbol, const char* report),
                                            graft_error* error);
/* The same for a model's file, in the format that it came in: an ONNX file, a frozen graph of TensorFlow (.pb), a
 * program of torch.export (.pt2), or a symbol of MXNet (NET-symbol.json), of which `output` is the prefix of both
 * files. Options:
 *   precision fp16     or bf16 (fp16)
 *   params net.params  a symbol's parameters
 *   request JSON       as of graft_convert_symbol
 *   outputs conv,fc    results of a graph of TensorFlow that keep their types (those that no node takes)
 * Hands `take`, which may be NULL, what `graft convert --json` writes. */
GRAFT_API graft_status graft_convert(const char* model, const char* output, const graft_option* options,
                                     size_t option_count, void* context,
                                     void (*take)(void* context, const char* report), graft_error* error);

#ifdef __cplusplus
}
#endif

#endif
