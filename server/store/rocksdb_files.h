#ifndef FARANDOLE_SERVER_STORE_ROCKSDB_FILES_H_
#define FARANDOLE_SERVER_STORE_ROCKSDB_FILES_H_

#include <memory>

#include "rocksdb/env.h"

namespace farandole {

// The file system for RocksDB's databases: as the default one, but the files that it makes are for their owner only
// (0600), and so are the directories (0700), whatever the process's umask is. Outlives each database that uses it.
std::unique_ptr<rocksdb::Env> MakePrivateFiles();

// For RocksDB's own lines of text, which nobody keeps. Its logger of files ends the process when it goes on after a
// line that found no room on the disk (an assertion, which Debian's build has); errors are told by its calls' statuses.
std::shared_ptr<rocksdb::Logger> MakeSilentLog();

}  // namespace farandole

#endif  // FARANDOLE_SERVER_STORE_ROCKSDB_FILES_H_
