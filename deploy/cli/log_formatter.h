#ifndef FARANDOLE_DEPLOY_CLI_LOG_FORMATTER_H_
#define FARANDOLE_DEPLOY_CLI_LOG_FORMATTER_H_

#include <memory>

#include "base/log_record.h"
#include "spdlog/formatter.h"

namespace farandole {

// Gives the coordinator's lines the fields of base/log_record.h. A logger that is named TENANT/JOB writes about that
// job; the others' names are not shown.
class LogFormatter final : public spdlog::formatter {
 public:
  explicit LogFormatter(LogFormat format) : format_(format) {}

  void format(const spdlog::details::log_msg& message, spdlog::memory_buf_t& line) override;
  std::unique_ptr<spdlog::formatter> clone() const override { return std::make_unique<LogFormatter>(format_); }

 private:
  const LogFormat format_;
};

}  // namespace farandole

#endif  // FARANDOLE_DEPLOY_CLI_LOG_FORMATTER_H_
