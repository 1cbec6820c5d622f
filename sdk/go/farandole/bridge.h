/* The bridge between Go and libfarandole.so: calls through a table of function pointers that farandole_go_load fills.
 *
 * Each function makes one call into the library and takes the sentence of its error on the same thread, since Go may
 * move a goroutine to another thread between two calls into C.
 */
#ifndef FARANDOLE_SDK_GO_FARANDOLE_BRIDGE_H_
#define FARANDOLE_SDK_GO_FARANDOLE_BRIDGE_H_

#include <stddef.h>
#include <stdint.h>

#include "worker/farandole.h"

enum { FARANDOLE_GO_DIMENSIONS = 32 };

/* The result of a call. The caller frees `sentence`, which is NULL or, where `code` is an error, its words. */
typedef struct farandole_go_outcome {
  int64_t value;
  char* sentence;
  int32_t code;
} farandole_go_outcome;

/* The terms of a submission but for its memory. `name` does not end in NUL; only its `name_bytes` count. */
typedef struct farandole_go_terms {
  const char* name;
  int64_t name_bytes;
  double prescale;
  double postscale;
  int32_t dtype;
  int32_t reduce_op;
  int32_t group;
  int32_t ndim;
  int64_t shape[FARANDOLE_GO_DIMENSIONS];
} farandole_go_terms;

/* Opens the library at `path` and fills the table. NULL: done; otherwise the reason, which the caller frees. */
char* farandole_go_load(const char* path, int deepbind);
int farandole_go_abi_version(void);
int farandole_go_wanted_abi_version(void);
/* Static. */
const char* farandole_go_version(void);

/* `cancel` points to a word that lives through the call; the call gives up when it is not 0. */
farandole_go_outcome farandole_go_init(const farandole_init_options* options, const int32_t* cancel);
/* Tells the library how to read the stacks of goroutines; `main_goroutine` is the number of the one that runs main. */
farandole_go_outcome farandole_go_offer_stacks(uint64_t main_goroutine);
farandole_go_outcome farandole_go_rejoin(const int32_t* cancel);
farandole_go_outcome farandole_go_shutdown(const int32_t* cancel);
/* The group is the value. */
farandole_go_outcome farandole_go_add_group(const int32_t* ranks, int32_t count, const int32_t* cancel);
farandole_go_outcome farandole_go_remove_group(int32_t group, const int32_t* cancel);
/* The arena's address in this process is the value, and the arena goes into `*arena`. */
farandole_go_outcome farandole_go_arena_create(const char* name, int64_t bytes, int32_t group, farandole_arena** arena,
                                               const int32_t* cancel);
void farandole_go_arena_release(farandole_arena* arena);

/* Numbers of the process: a value >= 0, or the error of not being initialized. */
farandole_go_outcome farandole_go_rank(void);
farandole_go_outcome farandole_go_size(void);
farandole_go_outcome farandole_go_local_rank(void);
farandole_go_outcome farandole_go_local_size(void);
farandole_go_outcome farandole_go_cross_rank(void);
farandole_go_outcome farandole_go_cross_size(void);
farandole_go_outcome farandole_go_is_homogeneous(void);
farandole_go_outcome farandole_go_epoch(void);
/* -1: this rank is not in the group. */
farandole_go_outcome farandole_go_group_rank(int32_t group);
farandole_go_outcome farandole_go_group_size(int32_t group);
int farandole_go_is_elastic(void);
int farandole_go_is_initialized(void);

farandole_go_outcome farandole_go_fail(const char* words);
farandole_go_outcome farandole_go_epoch_ended(void);
/* The sentence is that of the change where the code is OK. */
farandole_go_outcome farandole_go_change_wanted(farandole_change* change);
farandole_go_outcome farandole_go_depart(int64_t grace_ms, const char* reason);
farandole_go_outcome farandole_go_prove(const char* label, const void* bytes, int64_t size, void* proof);

/* Submissions. Where `wait_ms` is not 0 the call waits: the code is then FARANDOLE_OK with the value 0, or that of the
 * error, or FARANDOLE_STILL_PENDING with the handle as the value. With 0 the handle is the value. */
farandole_go_outcome farandole_go_allreduce(farandole_go_terms terms, const void* input, void* output, int64_t wait_ms);
farandole_go_outcome farandole_go_broadcast(farandole_go_terms terms, const void* input, void* output, int32_t root,
                                            int64_t wait_ms);
farandole_go_outcome farandole_go_reducescatter(farandole_go_terms terms, const void* input, void* output,
                                                int64_t wait_ms);
farandole_go_outcome farandole_go_barrier(farandole_go_terms terms, int64_t wait_ms);
farandole_go_outcome farandole_go_join(int32_t* last_rank);
/* These have results to fetch: the value is always the handle, where there is no error of the submission itself. */
farandole_go_outcome farandole_go_allgather(farandole_go_terms terms, const void* input, int64_t wait_ms);
farandole_go_outcome farandole_go_alltoall(farandole_go_terms terms, const void* input, const int64_t* splits,
                                           int32_t splits_count, int64_t wait_ms);

farandole_go_outcome farandole_go_gather(farandole_go_terms terms, const void* input, int32_t root, int64_t wait_ms);
farandole_go_outcome farandole_go_scatter(farandole_go_terms terms, const void* input, int32_t root, int64_t wait_ms);

/* The tensors of a grouped call: of each its input, its output (or NULL in place of all) and its number of dimensions,
 * and the dimensions of all one after the other. */
typedef struct farandole_go_group {
  const void* const* inputs;
  void* const* outputs;
  const int32_t* ndims;
  const int64_t* dims;
  int32_t tensors;
} farandole_go_group;

/* As farandole_go_allreduce for all tensors together. */
farandole_go_outcome farandole_go_grouped_allreduce(farandole_go_terms terms, const farandole_go_group* group,
                                                    int64_t wait_ms);
/* Grouped calls whose operation takes one tensor at a time: a submission for each tensor, or one where there is none.
 * `handles` has room for all; their number is the value. Where one is refused, the value is the number of those before
 * it. The last one waits. */
farandole_go_outcome farandole_go_grouped_allgather(farandole_go_terms terms, const farandole_go_group* group,
                                                    farandole_handle* handles, int64_t wait_ms);
farandole_go_outcome farandole_go_grouped_reducescatter(farandole_go_terms terms, const farandole_go_group* group,
                                                        farandole_handle* handles, int64_t wait_ms);

/* The value is 1 where the handle is complete, well or not, and 0 where it is pending. */
farandole_go_outcome farandole_go_poll(farandole_handle handle);
farandole_go_outcome farandole_go_wait(farandole_handle handle, int64_t timeout_ms);
/* Waits until another number of submissions than this has completed, and gives the number. */
uint64_t farandole_go_wait_for_completion(uint64_t completions, int64_t timeout_ms);
farandole_go_outcome farandole_go_finish(farandole_handle handle, int64_t timeout_ms);
/* The bytes of the result are the value; `rows` has room for the group's size. */
farandole_go_outcome farandole_go_result(farandole_handle handle, int64_t* rows);
farandole_go_outcome farandole_go_copy_result(farandole_handle handle, void* output);
void farandole_go_release(farandole_handle handle);

/* The sentence is the path where the code is OK; that of find is followed by the step in the value. */
farandole_go_outcome farandole_go_checkpoint_begin(const char* directory, const char* name, int64_t step,
                                                   const char* extension, int replace, int64_t* number);
farandole_go_outcome farandole_go_checkpoint_commit(int64_t number);
farandole_go_outcome farandole_go_checkpoint_fail(int64_t number, const char* cause);
void farandole_go_checkpoint_abandon(int64_t number);
farandole_go_outcome farandole_go_checkpoint_requested(const int32_t* cancel);
farandole_go_outcome farandole_go_checkpoint_find(const char* directory, const char* name, int64_t step);

farandole_go_outcome farandole_go_log(const char* name, double value, int64_t step, int by_rank);
farandole_go_outcome farandole_go_section_begin(const char* name);
void farandole_go_section_end(int64_t section);
farandole_go_outcome farandole_go_start_timeline(const char* path, int mark_cycles);
farandole_go_outcome farandole_go_stop_timeline(void);
farandole_go_outcome farandole_go_read_counters(farandole_counters* counters);

#endif /* FARANDOLE_SDK_GO_FARANDOLE_BRIDGE_H_ */
