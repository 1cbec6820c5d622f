#ifndef FARANDOLE_BASE_TESTING_LOG_LINES_H_
#define FARANDOLE_BASE_TESTING_LOG_LINES_H_

#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "spdlog/sinks/base_sink.h"
#include "spdlog/spdlog.h"

namespace farandole {

// Takes the lines of the process's log at level info and above, which go nowhere else as long as it lives. Thread-safe.
class LogLines {
 public:
  LogLines() { spdlog::set_default_logger(std::make_shared<spdlog::logger>("", sink_)); }
  ~LogLines() { spdlog::set_default_logger(before_); }
  LogLines(const LogLines&) = delete;
  LogLines& operator=(const LogLines&) = delete;

  // The texts of the lines since the last call.
  std::vector<std::string> Take() { return sink_->Take(); }

 private:
  class Sink : public spdlog::sinks::base_sink<std::mutex> {
   public:
    std::vector<std::string> Take() {
      const std::lock_guard<std::mutex> lock(mutex_);
      return std::exchange(lines_, {});
    }

   private:
    void sink_it_(const spdlog::details::log_msg& line) override {
      lines_.emplace_back(line.payload.data(), line.payload.size());
    }
    void flush_() override {}

    std::vector<std::string> lines_;
  };

  const std::shared_ptr<spdlog::logger> before_ = spdlog::default_logger();
  const std::shared_ptr<Sink> sink_ = std::make_shared<Sink>();  // shared with the logger
};

}  // namespace farandole

#endif  // FARANDOLE_BASE_TESTING_LOG_LINES_H_
