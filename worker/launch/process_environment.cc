#include "worker/launch/process_environment.h"

#include <dlfcn.h>
#include <unistd.h>

namespace farandole {

char** ProcessEnvironment() {
  void* const program = dlopen(nullptr, RTLD_LAZY);
  auto* const variables = program == nullptr ? nullptr : static_cast<char***>(dlsym(program, "environ"));
  return variables != nullptr ? *variables : environ;
}

}  // namespace farandole
