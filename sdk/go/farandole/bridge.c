#define _GNU_SOURCE
#include "bridge.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Written in Go (stacks.go). */
extern int64_t farandoleGoStacks(char* text, int64_t bytes);

/* The library's functions that Go calls, each without its farandole_. */
/* clang-format off */
#define FUNCTIONS(X)                                                                                       \
  X(abi_version) X(version) X(last_error) X(init) X(rejoin) X(shutdown) X(add_group) X(remove_group)       \
  X(arena_create) X(arena_address) X(arena_release) X(rank) X(size) X(local_rank) X(local_size)            \
  X(cross_rank) X(cross_size) X(is_homogeneous) X(epoch) X(group_rank) X(group_size) X(is_elastic) X(fail) \
  X(epoch_ended) X(change_wanted) X(change_sentence) X(depart) X(allreduce) X(allreduce_now)               \
  X(grouped_allreduce) X(broadcast) X(reducescatter) X(barrier) X(join) X(allgather) X(alltoall) X(gather) \
  X(scatter) X(poll) X(wait) X(wait_for_completion) X(finish) X(result) X(copy_result) X(release)          \
  X(checkpoint_begin) X(checkpoint_commit) X(checkpoint_fail) X(checkpoint_abandon) X(checkpoint_find)     \
  X(checkpoint_requested) X(start_timeline) X(stop_timeline) X(log) X(read_counters)              \
  X(section_begin) X(section_end) X(set_stack_source) X(is_initialized) X(prove)
/* clang-format on */

#define FUNCTION(name) __typeof__(&farandole_##name) name;
static struct { FUNCTIONS(FUNCTION) } table;

#define SYMBOL(name) {"farandole_" #name, (void**)&table.name},
static const struct {
  const char* name;
  void** slot;
} symbols[] = {FUNCTIONS(SYMBOL)};

char* farandole_go_load(const char* path, int deepbind) {
  void* library = dlopen(path, RTLD_NOW | RTLD_LOCAL | (deepbind ? RTLD_DEEPBIND : 0));
  if (library == NULL) return strdup(dlerror());
  for (size_t i = 0; i < sizeof symbols / sizeof symbols[0]; ++i) {
    *symbols[i].slot = dlsym(library, symbols[i].name);
    if (*symbols[i].slot == NULL) {
      char reason[128];
      snprintf(reason, sizeof reason, "it lacks the function %s", symbols[i].name);
      return strdup(reason);
    }
  }
  return NULL;
}

int farandole_go_abi_version(void) { return table.abi_version(); }
int farandole_go_wanted_abi_version(void) { return FARANDOLE_ABI_VERSION; }
const char* farandole_go_version(void) { return table.version(); }

/* The outcome of a code, with the sentence of an error. */
static farandole_go_outcome of_code(int code) {
  farandole_go_outcome outcome = {0, NULL, code};
  if (code != FARANDOLE_OK && code != FARANDOLE_STILL_PENDING) outcome.sentence = strdup(table.last_error());
  return outcome;
}

/* The outcome of what is a value >= 0 or minus a code. */
static farandole_go_outcome of_value(int64_t value) {
  if (value < 0) return of_code((int)-value);
  farandole_go_outcome outcome = {value, NULL, FARANDOLE_OK};
  return outcome;
}

static farandole_go_outcome with_text(farandole_go_outcome outcome, const char* text) {
  if (outcome.code == FARANDOLE_OK && text != NULL) outcome.sentence = strdup(text);
  return outcome;
}

/* The word that this thread's blocking call looks at. */
static __thread const int32_t* cancel_word;

static int interrupted(void) { return __atomic_load_n(cancel_word, __ATOMIC_SEQ_CST); }

farandole_go_outcome farandole_go_init(const farandole_init_options* options, const int32_t* cancel) {
  cancel_word = cancel;
  return of_code(table.init(options, interrupted));
}

farandole_go_outcome farandole_go_offer_stacks(uint64_t main_goroutine) {
  return of_code(table.set_stack_source(farandoleGoStacks, 0, -1, main_goroutine));
}

farandole_go_outcome farandole_go_rejoin(const int32_t* cancel) {
  cancel_word = cancel;
  return of_code(table.rejoin(interrupted));
}

farandole_go_outcome farandole_go_shutdown(const int32_t* cancel) {
  cancel_word = cancel;
  return of_code(table.shutdown(interrupted));
}

farandole_go_outcome farandole_go_add_group(const int32_t* ranks, int32_t count, const int32_t* cancel) {
  int32_t group = 0;
  cancel_word = cancel;
  farandole_go_outcome outcome = of_code(table.add_group(ranks, count, &group, interrupted));
  outcome.value = group;
  return outcome;
}

farandole_go_outcome farandole_go_remove_group(int32_t group, const int32_t* cancel) {
  cancel_word = cancel;
  return of_code(table.remove_group(group, interrupted));
}

farandole_go_outcome farandole_go_arena_create(const char* name, int64_t bytes, int32_t group, farandole_arena** arena,
                                               const int32_t* cancel) {
  cancel_word = cancel;
  farandole_go_outcome outcome = of_code(table.arena_create(name, bytes, group, arena, interrupted));
  if (outcome.code == FARANDOLE_OK) outcome.value = (int64_t)(intptr_t)table.arena_address(*arena);
  return outcome;
}

void farandole_go_arena_release(farandole_arena* arena) { table.arena_release(arena); }

farandole_go_outcome farandole_go_rank(void) { return of_value(table.rank()); }
farandole_go_outcome farandole_go_size(void) { return of_value(table.size()); }
farandole_go_outcome farandole_go_local_rank(void) { return of_value(table.local_rank()); }
farandole_go_outcome farandole_go_local_size(void) { return of_value(table.local_size()); }
farandole_go_outcome farandole_go_cross_rank(void) { return of_value(table.cross_rank()); }
farandole_go_outcome farandole_go_cross_size(void) { return of_value(table.cross_size()); }
farandole_go_outcome farandole_go_is_homogeneous(void) { return of_value(table.is_homogeneous()); }
farandole_go_outcome farandole_go_epoch(void) { return of_value(table.epoch()); }
int farandole_go_is_elastic(void) { return table.is_elastic(); }
int farandole_go_is_initialized(void) { return table.is_initialized(); }

/* In these queries -1 is a value, so that an unknown group has a number of its own. */
static farandole_go_outcome of_group(int found) {
  if (found == -FARANDOLE_NOT_FOUND - 1) return of_code(FARANDOLE_NOT_FOUND);
  if (found < -1) return of_code(-found);
  farandole_go_outcome outcome = {found, NULL, FARANDOLE_OK};
  return outcome;
}

farandole_go_outcome farandole_go_group_rank(int32_t group) { return of_group(table.group_rank(group)); }
farandole_go_outcome farandole_go_group_size(int32_t group) { return of_group(table.group_size(group)); }

farandole_go_outcome farandole_go_fail(const char* words) { return of_code(table.fail(words)); }
farandole_go_outcome farandole_go_epoch_ended(void) { return of_code(table.epoch_ended()); }

farandole_go_outcome farandole_go_change_wanted(farandole_change* change) {
  const farandole_go_outcome outcome = of_code(table.change_wanted(change));
  return change->serial == 0 ? outcome : with_text(outcome, table.change_sentence());
}

farandole_go_outcome farandole_go_depart(int64_t grace_ms, const char* reason) {
  return of_code(table.depart(grace_ms, reason));
}

farandole_go_outcome farandole_go_prove(const char* label, const void* bytes, int64_t size, void* proof) {
  return of_code(table.prove(label, bytes, size, proof));
}

/* A name that ends in NUL, on the stack where it is short. */
enum { kShortName = 256 };
struct name {
  char text[kShortName];
  char* allocated;
};

static const char* name_of(const farandole_go_terms* terms, struct name* name) {
  name->allocated = NULL;
  if (terms->name_bytes == 0) return NULL;
  char* text = name->text;
  if (terms->name_bytes >= kShortName) text = name->allocated = malloc((size_t)terms->name_bytes + 1);
  memcpy(text, terms->name, (size_t)terms->name_bytes);
  text[terms->name_bytes] = '\0';
  return text;
}

/* Finishes a submission that was waited for and has no result to fetch. */
static farandole_go_outcome settled(farandole_handle handle, int64_t wait_ms) {
  if (handle < 0 || wait_ms == 0) return of_value(handle);
  farandole_go_outcome outcome = of_code(table.finish(handle, 0));
  if (outcome.code == FARANDOLE_STILL_PENDING) outcome.value = handle;
  return outcome;
}

farandole_go_outcome farandole_go_allreduce(farandole_go_terms terms, const void* input, void* output,
                                            int64_t wait_ms) {
  struct name name;
  const char* text = name_of(&terms, &name);
  farandole_handle handle = 0;
  farandole_go_outcome outcome;
  if (wait_ms != 0) {
    outcome = of_code(table.allreduce_now(text, input, output, terms.shape, terms.ndim, terms.dtype, terms.reduce_op,
                                          terms.prescale, terms.postscale, terms.group, wait_ms, &handle));
    outcome.value = handle;
  } else {
    outcome = of_value(table.allreduce(text, input, output, terms.shape, terms.ndim, terms.dtype, terms.reduce_op,
                                       terms.prescale, terms.postscale, terms.group, 0));
  }
  free(name.allocated);
  return outcome;
}

/* The shape of the tensor that a grouped call without tensors submits. */
static const int64_t no_elements[1] = {0};

farandole_go_outcome farandole_go_grouped_allreduce(farandole_go_terms terms, const farandole_go_group* group,
                                                    int64_t wait_ms) {
  struct name name;
  const char* text = name_of(&terms, &name);
  farandole_tensor* tensors = malloc(sizeof(farandole_tensor) * (size_t)(group->tensors + 1));
  const farandole_tensor nothing = {NULL, NULL, no_elements, 1};
  const farandole_part none = {NULL, 0, 0};
  tensors[0] = nothing;
  const int64_t* dims = group->dims;
  for (int32_t i = 0; i < group->tensors; dims += group->ndims[i++]) {
    const farandole_tensor tensor = {group->inputs[i], group->outputs[i], dims, group->ndims[i]};
    tensors[i] = tensor;
  }
  const farandole_handle handle =
      table.grouped_allreduce(text, tensors, group->tensors > 0 ? group->tensors : 1, terms.dtype, terms.reduce_op,
                              terms.prescale, terms.postscale, terms.group, wait_ms, group->tensors > 0 ? NULL : &none);
  const farandole_go_outcome outcome = settled(handle, wait_ms);
  free(tensors);
  free(name.allocated);
  return outcome;
}

farandole_go_outcome farandole_go_broadcast(farandole_go_terms terms, const void* input, void* output, int32_t root,
                                            int64_t wait_ms) {
  struct name name;
  const char* text = name_of(&terms, &name);
  const farandole_handle handle =
      table.broadcast(text, input, output, terms.shape, terms.ndim, terms.dtype, root, terms.group, wait_ms);
  const farandole_go_outcome outcome = settled(handle, wait_ms);
  free(name.allocated);
  return outcome;
}

farandole_go_outcome farandole_go_reducescatter(farandole_go_terms terms, const void* input, void* output,
                                                int64_t wait_ms) {
  struct name name;
  const char* text = name_of(&terms, &name);
  const farandole_handle handle =
      table.reducescatter(text, input, output, terms.shape, terms.ndim, terms.dtype, terms.reduce_op, terms.prescale,
                          terms.postscale, terms.group, wait_ms, NULL);
  const farandole_go_outcome outcome = settled(handle, wait_ms);
  free(name.allocated);
  return outcome;
}

farandole_go_outcome farandole_go_barrier(farandole_go_terms terms, int64_t wait_ms) {
  struct name name;
  const farandole_handle handle = table.barrier(name_of(&terms, &name), terms.group, wait_ms);
  const farandole_go_outcome outcome = settled(handle, wait_ms);
  free(name.allocated);
  return outcome;
}

farandole_go_outcome farandole_go_join(int32_t* last_rank) { return of_value(table.join(last_rank)); }

farandole_go_outcome farandole_go_allgather(farandole_go_terms terms, const void* input, int64_t wait_ms) {
  struct name name;
  const char* text = name_of(&terms, &name);
  const farandole_go_outcome outcome =
      of_value(table.allgather(text, input, terms.shape, terms.ndim, terms.dtype, terms.group, wait_ms, NULL));
  free(name.allocated);
  return outcome;
}

farandole_go_outcome farandole_go_alltoall(farandole_go_terms terms, const void* input, const int64_t* splits,
                                           int32_t splits_count, int64_t wait_ms) {
  struct name name;
  const char* text = name_of(&terms, &name);
  const farandole_go_outcome outcome = of_value(
      table.alltoall(text, input, terms.shape, terms.ndim, terms.dtype, splits, splits_count, terms.group, wait_ms));
  free(name.allocated);
  return outcome;
}

farandole_go_outcome farandole_go_gather(farandole_go_terms terms, const void* input, int32_t root, int64_t wait_ms) {
  struct name name;
  const char* text = name_of(&terms, &name);
  const farandole_go_outcome outcome =
      of_value(table.gather(text, input, terms.shape, terms.ndim, terms.dtype, root, terms.group, wait_ms));
  free(name.allocated);
  return outcome;
}

farandole_go_outcome farandole_go_scatter(farandole_go_terms terms, const void* input, int32_t root, int64_t wait_ms) {
  struct name name;
  const char* text = name_of(&terms, &name);
  const farandole_go_outcome outcome =
      of_value(table.scatter(text, input, terms.shape, terms.ndim, terms.dtype, root, terms.group, wait_ms));
  free(name.allocated);
  return outcome;
}

/* One submission of a grouped call. */
typedef farandole_handle (*submit_one)(const farandole_go_terms* terms, const char* name, const void* input,
                                       void* output, int64_t wait_ms, const farandole_part* part);

static farandole_handle gather_one(const farandole_go_terms* terms, const char* name, const void* input, void* output,
                                   int64_t wait_ms, const farandole_part* part) {
  (void)output;
  return table.allgather(name, input, terms->shape, terms->ndim, terms->dtype, terms->group, wait_ms, part);
}

static farandole_handle scatter_one(const farandole_go_terms* terms, const char* name, const void* input, void* output,
                                    int64_t wait_ms, const farandole_part* part) {
  return table.reducescatter(name, input, output, terms->shape, terms->ndim, terms->dtype, terms->reduce_op,
                             terms->prescale, terms->postscale, terms->group, wait_ms, part);
}

static farandole_go_outcome submit_each(farandole_go_terms* terms, const farandole_go_group* group,
                                        farandole_handle* handles, int64_t wait_ms, submit_one submit) {
  struct name name;
  const char* text = name_of(terms, &name);
  /* The number of a further submission is added to the name, so there is room for it. */
  char* numbered = text == NULL ? NULL : malloc((size_t)terms->name_bytes + 16);
  farandole_member* members = malloc(sizeof(farandole_member) * (size_t)(group->tensors + 1));
  const int64_t* dims = group->dims;
  for (int32_t i = 0; i < group->tensors; dims += group->ndims[i++]) {
    const farandole_member member = {dims, group->ndims[i], terms->dtype, 0};
    members[i] = member;
  }
  farandole_part part = {members, group->tensors, 0};
  const int32_t count = group->tensors > 0 ? group->tensors : 1;
  farandole_go_outcome outcome = {count, NULL, FARANDOLE_OK};
  dims = group->tensors > 0 ? group->dims : no_elements;
  for (int32_t i = 0; i < count; ++i) {
    terms->ndim = group->tensors > 0 ? group->ndims[i] : 1;
    memcpy(terms->shape, dims, sizeof(int64_t) * (size_t)terms->ndim);
    dims += terms->ndim;
    /* The first has the call's own name on every rank, whatever its tensors are, so that ranks can compare them. */
    if (i > 0 && text != NULL) snprintf(numbered, (size_t)terms->name_bytes + 16, "%s.%d", text, (int)i);
    handles[i] = submit(terms, i > 0 ? numbered : text, group->tensors > 0 ? group->inputs[i] : NULL,
                        group->tensors > 0 && group->outputs != NULL ? group->outputs[i] : NULL,
                        i + 1 < count ? 0 : wait_ms, group->tensors == 1 ? NULL : &part);
    if (i == 0) part.first = handles[0];
    if (handles[i] >= 0) continue;
    outcome = of_value(handles[i]);
    outcome.value = i;
    break;
  }
  free(members);
  free(numbered);
  free(name.allocated);
  return outcome;
}

farandole_go_outcome farandole_go_grouped_allgather(farandole_go_terms terms, const farandole_go_group* group,
                                                    farandole_handle* handles, int64_t wait_ms) {
  return submit_each(&terms, group, handles, wait_ms, gather_one);
}

farandole_go_outcome farandole_go_grouped_reducescatter(farandole_go_terms terms, const farandole_go_group* group,
                                                        farandole_handle* handles, int64_t wait_ms) {
  return submit_each(&terms, group, handles, wait_ms, scatter_one);
}

farandole_go_outcome farandole_go_poll(farandole_handle handle) { return of_value(table.poll(handle)); }
farandole_go_outcome farandole_go_wait(farandole_handle handle, int64_t timeout_ms) {
  return of_code(table.wait(handle, timeout_ms));
}
uint64_t farandole_go_wait_for_completion(uint64_t completions, int64_t timeout_ms) {
  table.wait_for_completion(&completions, timeout_ms);
  return completions;
}
farandole_go_outcome farandole_go_finish(farandole_handle handle, int64_t timeout_ms) {
  return of_code(table.finish(handle, timeout_ms));
}

farandole_go_outcome farandole_go_result(farandole_handle handle, int64_t* rows) {
  void* data = NULL;
  int64_t bytes = 0;
  farandole_go_outcome outcome = of_code(table.result(handle, &data, &bytes, rows));
  outcome.value = bytes;
  return outcome;
}

farandole_go_outcome farandole_go_copy_result(farandole_handle handle, void* output) {
  return of_code(table.copy_result(handle, output));
}
void farandole_go_release(farandole_handle handle) { table.release(handle); }

farandole_go_outcome farandole_go_checkpoint_begin(const char* directory, const char* name, int64_t step,
                                                   const char* extension, int replace, int64_t* number) {
  const char* path = NULL;
  const farandole_go_outcome outcome =
      of_code(table.checkpoint_begin(directory, name, step, extension, replace, number, &path));
  return with_text(outcome, path);
}

farandole_go_outcome farandole_go_checkpoint_commit(int64_t number) {
  const char* path = NULL;
  const farandole_go_outcome outcome = of_code(table.checkpoint_commit(number, &path));
  return with_text(outcome, path);
}

farandole_go_outcome farandole_go_checkpoint_fail(int64_t number, const char* cause) {
  return of_code(table.checkpoint_fail(number, cause));
}
void farandole_go_checkpoint_abandon(int64_t number) { table.checkpoint_abandon(number); }

farandole_go_outcome farandole_go_checkpoint_requested(const int32_t* cancel) {
  int32_t requested = 0;
  cancel_word = cancel;
  farandole_go_outcome outcome = of_code(table.checkpoint_requested(&requested, interrupted));
  outcome.value = requested;
  return outcome;
}

farandole_go_outcome farandole_go_checkpoint_find(const char* directory, const char* name, int64_t step) {
  const char* path = NULL;
  int64_t found = 0;
  farandole_go_outcome outcome = of_code(table.checkpoint_find(directory, name, step, &path, &found));
  outcome.value = found;
  return with_text(outcome, path);
}

farandole_go_outcome farandole_go_start_timeline(const char* path, int mark_cycles) {
  return of_code(table.start_timeline(path, mark_cycles));
}
farandole_go_outcome farandole_go_stop_timeline(void) { return of_code(table.stop_timeline()); }
farandole_go_outcome farandole_go_log(const char* name, double value, int64_t step, int by_rank) {
  return of_code(table.log(name, value, step, by_rank));
}
farandole_go_outcome farandole_go_section_begin(const char* name) { return of_value(table.section_begin(name)); }
void farandole_go_section_end(int64_t section) { table.section_end(section); }
farandole_go_outcome farandole_go_read_counters(farandole_counters* counters) {
  return of_code(table.read_counters(counters));
}
