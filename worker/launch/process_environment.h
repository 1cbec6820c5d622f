#ifndef FARANDOLE_WORKER_LAUNCH_PROCESS_ENVIRONMENT_H_
#define FARANDOLE_WORKER_LAUNCH_PROCESS_ENVIRONMENT_H_

namespace farandole {

// The process's environment, as the program itself finds it, ended by null: a library that is opened with RTLD_DEEPBIND
// finds libc's own pointer under the name `environ`, which is never set.
char** ProcessEnvironment();

}  // namespace farandole

#endif  // FARANDOLE_WORKER_LAUNCH_PROCESS_ENVIRONMENT_H_
