#ifndef FARANDOLE_WORKER_ENGINE_TIMELINE_TIMELINE_TEXT_H_
#define FARANDOLE_WORKER_ENGINE_TIMELINE_TIMELINE_TEXT_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>

#include "base/dtype.h"
#include "base/op_type.h"

namespace farandole {

// An event of a timeline; by values, since a submission's place is used again.
struct TimelineEvent {
  // "": the beginning of a batch.
  std::string name;
  OpType op;
  DType dtype;
  uint32_t group;
  int64_t count;
  int64_t submitted_ns;
  int64_t started_ns;
  int64_t ended_ns;
  std::string error;
  // The batch ran on a GPU, and its name is its label. Only the times of its beginning and its end there are known.
  bool is_on_gpu = false;
};

// Writes events of one rank as lines for chrome://tracing, each a JSON object, in one part or several, which can be
// read by themselves: in each of them a tensor's row is named once, before its first event. Rows keep their numbers.
class TimelineText {
 public:
  // Tensors that have a row of their own.
  static constexpr size_t kMostRows = 1 << 14;

  // `ahead_ns` is by how much the times of the text are ahead of those of the events. The lines of a part are appended
  // to `out`, which outlives it and may be emptied at any time, with ",\n" between them.
  TimelineText(int rank, std::string who, int64_t ahead_ns, std::string* out);

  // Before the first event: the lines that name the process.
  void BeginPart();
  void Add(const TimelineEvent& event);
  // Notes that so many events were lost until then.
  void AddDropped(uint64_t events, int64_t at_ns);

 private:
  void AddLine(const std::string& text);
  void AddSpan(const std::string& name, int row, int64_t from_ns, int64_t to_ns, const std::string& arguments);
  int RowNamed(const std::string& name);

  struct Row {
    int number;
    // In which it was named last.
    uint64_t part;
  };

  const int rank_;
  const std::string who_;
  const int64_t ahead_ns_;
  std::string* const out_;
  bool is_first_ = true;
  uint64_t part_ = 0;
  std::map<std::string, Row> rows_;
};

}  // namespace farandole

#endif  // FARANDOLE_WORKER_ENGINE_TIMELINE_TIMELINE_TEXT_H_
