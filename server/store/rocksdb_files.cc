#include "server/store/rocksdb_files.h"

#include <sys/stat.h>

#include <cerrno>
#include <cstdarg>
#include <cstring>
#include <string>

#include "rocksdb/file_system.h"
#include "rocksdb/io_status.h"

namespace farandole {
namespace {

// RocksDB makes files with mode 0644; of its own switch for 0600 (Env::SetAllowNonOwnerAccess), version 7.8 takes no
// notice.
class PrivateFiles : public rocksdb::FileSystemWrapper {
 public:
  PrivateFiles() : FileSystemWrapper(rocksdb::FileSystem::Default()) {}

  const char* Name() const override { return "FarandolePrivateFiles"; }

  rocksdb::IOStatus NewWritableFile(const std::string& path, const rocksdb::FileOptions& options,
                                    std::unique_ptr<rocksdb::FSWritableFile>* file,
                                    rocksdb::IODebugContext* context) override {
    return Restrict(path, target()->NewWritableFile(path, options, file, context));
  }
  rocksdb::IOStatus ReopenWritableFile(const std::string& path, const rocksdb::FileOptions& options,
                                       std::unique_ptr<rocksdb::FSWritableFile>* file,
                                       rocksdb::IODebugContext* context) override {
    return Restrict(path, target()->ReopenWritableFile(path, options, file, context));
  }
  rocksdb::IOStatus NewRandomRWFile(const std::string& path, const rocksdb::FileOptions& options,
                                    std::unique_ptr<rocksdb::FSRandomRWFile>* file,
                                    rocksdb::IODebugContext* context) override {
    return Restrict(path, target()->NewRandomRWFile(path, options, file, context));
  }
  rocksdb::IOStatus LockFile(const std::string& path, const rocksdb::IOOptions& options, rocksdb::FileLock** lock,
                             rocksdb::IODebugContext* context) override {
    return Restrict(path, target()->LockFile(path, options, lock, context));
  }
  rocksdb::IOStatus CreateDir(const std::string& path, const rocksdb::IOOptions&, rocksdb::IODebugContext*) override {
    return MakePrivate(path) ? rocksdb::IOStatus::OK() : Failed("mkdir", path);
  }
  rocksdb::IOStatus CreateDirIfMissing(const std::string& path, const rocksdb::IOOptions& options,
                                       rocksdb::IODebugContext* context) override {
    if (MakePrivate(path)) return rocksdb::IOStatus::OK();
    // It knows whether what is there is a directory.
    return errno == EEXIST ? target()->CreateDirIfMissing(path, options, context) : Failed("mkdir", path);
  }

 private:
  static bool MakePrivate(const std::string& path) {
    return mkdir(path.c_str(), 0700) == 0 && chmod(path.c_str(), 0700) == 0;
  }
  static rocksdb::IOStatus Failed(const char* call, const std::string& path) {
    return rocksdb::IOStatus::IOError(std::string("While ") + call + " " + path, strerror(errno));
  }
  static rocksdb::IOStatus Restrict(const std::string& path, rocksdb::IOStatus made) {
    if (made.ok() && chmod(path.c_str(), 0600) != 0) return Failed("chmod 0600", path);
    return made;
  }
};

class SilentLog : public rocksdb::Logger {
 public:
  using rocksdb::Logger::Logv;
  void Logv(const char*, va_list) override {}
};

}  // namespace

std::shared_ptr<rocksdb::Logger> MakeSilentLog() { return std::make_shared<SilentLog>(); }

std::unique_ptr<rocksdb::Env> MakePrivateFiles() { return rocksdb::NewCompositeEnv(std::make_shared<PrivateFiles>()); }

}  // namespace farandole
