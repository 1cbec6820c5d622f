// The arenas' part of the C interface.
#include <memory>
#include <string>
#include <utility>

#include "base/text/utf8_text.h"
#include "worker/abi/c_call.h"
#include "worker/farandole.h"
#include "worker/transport/shm/arena.h"

struct farandole_arena {
  // Shared with collectives that run in it.
  std::shared_ptr<const farandole::Arena> shared;
};

extern "C" {

int farandole_arena_create(const char* name, int64_t bytes, int32_t group, farandole_arena** arena,
                           int (*interrupted)(void)) {
  std::shared_ptr<const farandole::Arena> shared;
  const int code = farandole::WithLastingWorker("the making of an arena", [&](farandole::Worker& worker) {
    const std::string own_name = name == nullptr ? "" : name;
    if (absl::Status valid = farandole::CheckUtf8("the arena's name", own_name); !valid.ok())
      return farandole::Code(valid);
    auto made = worker.arenas().Create(own_name, bytes, static_cast<uint32_t>(group), farandole::Wrap(interrupted));
    if (made.ok()) shared = *made;
    return farandole::Code(made.status());
  });
  if (code == FARANDOLE_OK) *arena = new farandole_arena{std::move(shared)};
  return code;
}

void* farandole_arena_address(const farandole_arena* arena) { return arena->shared->data(); }

void farandole_arena_release(farandole_arena* arena) { delete arena; }

}  // extern "C"
