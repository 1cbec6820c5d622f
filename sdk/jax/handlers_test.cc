// The handlers for arrays in GPUs, beside an imitated XLA and an imitated worker library, which is this program itself.
#include "sdk/jax/handlers.h"

#include <cstddef>
#include <cstring>
#include <deque>
#include <string>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "sdk/adapter/worker_library.h"
#include "sdk/jax/instance.h"

namespace farandole::jax {

struct FfiError {
  int code;
  std::string message;
};

namespace {

constexpr int32_t kGpu = 5;
constexpr farandole_handle kHandle = 7;
constexpr int kBfloat16 = 16, kFloat32 = 11, kComplex64 = 15;  // XLA's numbers
FfiContext* const kContext = reinterpret_cast<FfiContext*>(0x100);
void* const kStream = reinterpret_cast<void*>(0x200);

// The calls that the handler has made of the worker library, and how the library and XLA answer.
struct World {
  std::vector<std::string> calls;
  std::vector<int32_t> members_on_gpu;
  int stream_code = FARANDOLE_OK;
  int submission_code = FARANDOLE_OK;
  int wait_code = FARANDOLE_OK;
  // So many waits end before the submission is complete.
  int slices = 0;
  int64_t slice_ms = 0;
  const char* reason = "";
  int64_t result_bytes = 0;
  std::vector<int64_t> result_rows;
  void* copied_to = nullptr;
  FfiError* device_error = nullptr;
  FfiError* stream_error = nullptr;
  void* state = nullptr;
};

World the_world;
// XLA keeps the type as long as the process lives.
void (*delete_state)(void*) = nullptr;

farandole_handle Submit(const std::string& operation, const char* name) {
  the_world.calls.push_back(operation + " " + name);
  return the_world.submission_code == FARANDOLE_OK ? kHandle : -the_world.submission_code;
}

void NoteMembers(const farandole_part* part) {
  for (int32_t i = 0; part != nullptr && i < part->count; ++i) {
    the_world.members_on_gpu.push_back(part->members[i].is_on_gpu);
  }
}

}  // namespace
}  // namespace farandole::jax

using farandole::jax::kGpu;
using farandole::jax::kHandle;
using farandole::jax::kStream;
using farandole::jax::NoteMembers;
using farandole::jax::Submit;
using farandole::jax::the_world;

// ---- The worker library

extern "C" {

int farandole_abi_version() { return FARANDOLE_ABI_VERSION; }
const char* farandole_last_error() { return the_world.reason; }
int farandole_rank() { return 0; }
int farandole_size() { return 2; }
int farandole_local_rank() { return 0; }
int farandole_local_size() { return 2; }
int farandole_cross_rank() { return 0; }
int farandole_cross_size() { return 1; }
int64_t farandole_epoch() { return 1; }
int farandole_group_rank(int32_t /*group*/) { return 0; }
int farandole_group_size(int32_t /*group*/) { return 2; }

int farandole_use_stream(int32_t gpu, void* stream) {
  const bool is_xlas = gpu == kGpu && stream == kStream;
  const bool is_none = gpu == -1 && stream == nullptr;
  the_world.calls.emplace_back(is_xlas ? "use XLA's stream" : is_none ? "use no stream" : "use another stream");
  return the_world.stream_code;
}

farandole_handle farandole_allreduce(const char* name, const void* /*input*/, void* /*output*/,
                                     const int64_t* /*shape*/, int32_t /*ndim*/, int32_t /*dtype*/,
                                     int32_t /*reduce_op*/, double /*prescale*/, double /*postscale*/,
                                     int32_t /*group*/, int64_t /*wait_ms*/) {
  return Submit("allreduce", name);
}

farandole_handle farandole_grouped_allreduce(const char* name, const farandole_tensor* /*tensors*/, int32_t /*count*/,
                                             int32_t /*dtype*/, int32_t /*reduce_op*/, double /*prescale*/,
                                             double /*postscale*/, int32_t /*group*/, int64_t /*wait_ms*/,
                                             const farandole_part* part) {
  NoteMembers(part);
  return Submit("allreduce", name);
}

farandole_handle farandole_allgather(const char* name, const void* /*input*/, const int64_t* /*shape*/,
                                     int32_t /*ndim*/, int32_t /*dtype*/, int32_t /*group*/, int64_t /*wait_ms*/,
                                     const farandole_part* part) {
  NoteMembers(part);
  return Submit("allgather", name);
}

farandole_handle farandole_alltoall(const char* name, const void* /*input*/, const int64_t* /*shape*/, int32_t /*ndim*/,
                                    int32_t /*dtype*/, const int64_t* /*splits*/, int32_t /*splits_count*/,
                                    int32_t /*group*/, int64_t /*wait_ms*/) {
  return Submit("alltoall", name);
}

farandole_handle farandole_broadcast(const char* name, const void* /*input*/, void* /*output*/,
                                     const int64_t* /*shape*/, int32_t /*ndim*/, int32_t /*dtype*/, int32_t /*root*/,
                                     int32_t /*group*/, int64_t /*wait_ms*/) {
  return Submit("broadcast", name);
}

farandole_handle farandole_gather(const char* name, const void* /*input*/, const int64_t* /*shape*/, int32_t /*ndim*/,
                                  int32_t /*dtype*/, int32_t /*root*/, int32_t /*group*/, int64_t /*wait_ms*/) {
  return Submit("gather", name);
}

farandole_handle farandole_reducescatter(const char* name, const void* /*input*/, void* /*output*/,
                                         const int64_t* /*shape*/, int32_t /*ndim*/, int32_t /*dtype*/,
                                         int32_t /*reduce_op*/, double /*prescale*/, double /*postscale*/,
                                         int32_t /*group*/, int64_t /*wait_ms*/, const farandole_part* part) {
  NoteMembers(part);
  return Submit("reducescatter", name);
}

farandole_handle farandole_scatter(const char* name, const void* /*input*/, const int64_t* /*shape*/, int32_t /*ndim*/,
                                   int32_t /*dtype*/, int32_t /*root*/, int32_t /*group*/, int64_t /*wait_ms*/) {
  return Submit("scatter", name);
}

farandole_handle farandole_join(int32_t* /*last_rank*/) { return Submit("join", ""); }

farandole_handle farandole_barrier(const char* name, int32_t /*group*/, int64_t /*wait_ms*/) {
  return Submit("barrier", name);
}

int farandole_poll(farandole_handle /*handle*/) { return 1; }

int farandole_wait(farandole_handle /*handle*/, int64_t timeout_ms) {
  if (the_world.slices == 0) return the_world.wait_code;
  --the_world.slices;
  the_world.slice_ms = timeout_ms;
  return FARANDOLE_STILL_PENDING;
}

int farandole_wait_for_completion(uint64_t* /*completions*/, int64_t /*timeout_ms*/) { return FARANDOLE_STILL_PENDING; }

int farandole_result(farandole_handle /*handle*/, void** data, int64_t* bytes, int64_t* rows) {
  *data = nullptr;
  *bytes = the_world.result_bytes;
  memcpy(rows, the_world.result_rows.data(), the_world.result_rows.size() * sizeof(int64_t));
  return FARANDOLE_OK;
}

int farandole_copy_result(farandole_handle /*handle*/, void* output) {
  the_world.calls.emplace_back("copy");
  the_world.copied_to = output;
  return FARANDOLE_OK;
}

void farandole_release(farandole_handle /*handle*/) { the_world.calls.emplace_back("release"); }
}

namespace farandole::jax {
namespace {

// ---- XLA

FfiApi MakeApi() {
  FfiApi api = {};
  api.struct_size = sizeof(FfiApi);
  api.version = {sizeof(FfiVersion), nullptr, 0, 1};
  api.error_create = [](FfiErrorCreateArgs* args) { return new FfiError{args->code, args->message}; };
  api.device_ordinal_get = [](FfiDeviceOrdinalArgs* args) {
    EXPECT_EQ(args->context, kContext);
    args->device_ordinal = kGpu;
    return the_world.device_error;
  };
  api.stream_get = [](FfiStreamArgs* args) {
    EXPECT_EQ(args->context, kContext);
    args->stream = kStream;
    return the_world.stream_error;
  };
  api.type_register = [](FfiTypeRegisterArgs* args) -> FfiError* {
    args->type_id->number = 1;
    delete_state = args->type_info->deleter;
    return nullptr;
  };
  api.state_set = [](FfiStateArgs* args) -> FfiError* {
    if (the_world.state != nullptr) delete_state(the_world.state);
    the_world.state = args->state;
    return nullptr;
  };
  api.state_get = [](FfiStateArgs* args) -> FfiError* {
    args->state = the_world.state;
    return nullptr;
  };
  return api;
}

// A call as XLA makes it: of arrays in its GPU, whose addresses nobody reads, and of the tickets behind them.
class Frame {
 public:
  explicit Frame(const FfiApi* api) {
    frame_.struct_size = sizeof(FfiCallFrame);
    frame_.api = api;
    frame_.context = kContext;
    frame_.stage = kFfiExecute;
    AddAttribute("name", kFfiString, &text_);
  }
  Frame(const Frame&) = delete;

  // An array of so many rows of two elements, and a result of so many.
  void AddArray(int dtype, int64_t rows, int64_t result_rows) {
    AddBuffer(&arguments_, dtype, rows);
    output_ = AddBuffer(&results_, dtype, result_rows);
  }
  void AddNumber(const char* name, int64_t number) {
    AddAttribute(name, kFfiScalar, &scalars_.emplace_back(FfiScalar{0, &numbers_.emplace_back(number)}));
  }
  void AskForMetadata(FfiMetadataExtension* question) { frame_.extension_start = &question->base; }
  // Where the last array's result lies.
  void* output() const { return output_; }

  // Runs a handler, with the arguments and results that were added.
  FfiError* Run(FfiFunction handler) {
    frame_.arguments = {sizeof(FfiBuffers), nullptr, static_cast<int64_t>(arguments_.size()) + 1, nullptr,
                        PointersTo(arguments_, &argument_pointers_)};
    frame_.results = {sizeof(FfiBuffers), nullptr, static_cast<int64_t>(results_.size()) + 1, nullptr,
                      PointersTo(results_, &result_pointers_)};
    frame_.attributes = {sizeof(FfiAttributes), nullptr,       static_cast<int64_t>(types_.size()),
                         types_.data(),         names_.data(), values_.data()};
    return handler(&frame_);
  }

 private:
  void* AddBuffer(std::deque<FfiBuffer>* buffers, int dtype, int64_t rows) {
    std::vector<int64_t>& dims = dims_.emplace_back(std::vector<int64_t>{rows, 2});
    void* const address = reinterpret_cast<void*>(0x1000 * ++buffers_);
    buffers->push_back({sizeof(FfiBuffer), nullptr, dtype, address, 2, dims.data()});
    return address;
  }
  void AddAttribute(const char* name, int type, void* value) {
    types_.push_back(type);
    names_.push_back(&spans_.emplace_back(FfiByteSpan{name, strlen(name)}));
    values_.push_back(value);
  }
  // And to a ticket behind them, at which no handler looks.
  static void** PointersTo(std::deque<FfiBuffer>& buffers, std::vector<void*>* pointers) {
    pointers->clear();
    for (FfiBuffer& buffer : buffers) pointers->push_back(&buffer);
    pointers->push_back(nullptr);
    return pointers->data();
  }

  FfiByteSpan text_ = {"step/call.1", 11};
  std::deque<FfiBuffer> arguments_, results_;
  std::deque<std::vector<int64_t>> dims_;
  std::vector<void*> argument_pointers_, result_pointers_;
  std::vector<int> types_;
  std::deque<FfiByteSpan> spans_;
  std::vector<FfiByteSpan*> names_;
  std::vector<void*> values_;
  std::deque<int64_t> numbers_;
  std::deque<FfiScalar> scalars_;
  intptr_t buffers_ = 0;
  void* output_ = nullptr;
  FfiCallFrame frame_ = {};
};

const Handlers& HandlersOf(const std::string& operation) {
  for (const Handlers& handlers : AllHandlers()) {
    if (handlers.name == "farandole_" + operation) return handlers;
  }
  ADD_FAILURE() << operation;
  return AllHandlers()[0];
}

class HandlersTest : public testing::Test {
 protected:
  void SetUp() override {
    the_world = {};
    ASSERT_EQ(farandole_adapter_connect(/*path=*/nullptr, 0), nullptr);
  }

  // Runs an operation of one array of four rows. The error: "CODE: TEXT", or "".
  std::string Run(const std::string& operation, int64_t result_rows = 4) {
    Frame frame(&api_);
    frame.AddArray(kFloat32, 4, result_rows);
    const std::string error = Run(operation, &frame);
    output_ = frame.output();
    return error;
  }
  static std::string Run(const std::string& operation, Frame* frame) {
    return Take(frame->Run(HandlersOf(operation).gpu));
  }
  static std::string Take(FfiError* error) {
    if (error == nullptr) return "";
    const std::string text = std::to_string(error->code) + ": " + error->message;
    delete error;
    return text;
  }

  FfiApi api_ = MakeApi();
  void* output_ = nullptr;
};

using Calls = std::vector<std::string>;

TEST_F(HandlersTest, ACallUsesXlasStreamOfItsGpuAndGivesItBack) {
  EXPECT_EQ(Run("allreduce"), "");
  EXPECT_EQ(the_world.calls, Calls({"use XLA's stream", "allreduce step/call.1", "release", "use no stream"}));
}

TEST_F(HandlersTest, EachOperationButJoinHasOneForGpus) {
  the_world.result_bytes = int64_t{4} * 2 * 4;
  the_world.result_rows = {2, 2};
  for (const Handlers& handlers : AllHandlers()) {
    const std::string operation = std::string(handlers.name).substr(strlen("farandole_"));
    EXPECT_EQ(handlers.gpu == nullptr, operation == "join") << operation;
    if (handlers.gpu == nullptr) continue;
    the_world.calls.clear();
    EXPECT_EQ(Run(operation), "") << operation;
    ASSERT_GE(the_world.calls.size(), 4U) << operation;
    EXPECT_EQ(the_world.calls[0], "use XLA's stream");
    EXPECT_EQ(the_world.calls[1], operation + " step/call.1");
    EXPECT_EQ(the_world.calls.back(), "use no stream");
  }
}

TEST_F(HandlersTest, AResultOfTheLibrarysIsCopiedInXlasStream) {
  the_world.result_bytes = int64_t{8} * 2 * 4;
  the_world.result_rows = {4, 4};
  EXPECT_EQ(Run("allgather", /*result_rows=*/8), "");
  EXPECT_EQ(the_world.calls, Calls({"use XLA's stream", "allgather step/call.1", "copy", "release", "use no stream"}));
  EXPECT_EQ(the_world.copied_to, output_);
}

TEST_F(HandlersTest, AResultThatDoesNotFitIsNotCopied) {
  the_world.result_bytes = int64_t{7} * 2 * 4;
  the_world.result_rows = {4, 3};
  EXPECT_NE(Run("allgather", /*result_rows=*/8).find("3: step/call.1: the ranks gave [4,3] rows"), std::string::npos);
  EXPECT_EQ(the_world.copied_to, nullptr);
  EXPECT_EQ(the_world.calls.back(), "use no stream");
}

TEST_F(HandlersTest, ArraysOfSeveralTypesAreStatedAsInTheGpu) {
  Frame frame(&api_);
  frame.AddArray(kFloat32, 4, 4);
  frame.AddArray(kBfloat16, 3, 3);
  EXPECT_EQ(Run("allreduce", &frame), "");
  EXPECT_EQ(the_world.calls, Calls({"use XLA's stream", "allreduce step/call.1", "allreduce step/call.1.1", "release",
                                    "release", "use no stream"}));
  EXPECT_EQ(the_world.members_on_gpu, std::vector<int32_t>({1, 1, 1, 1}));
}

TEST_F(HandlersTest, AnOldXlaIsRefused) {
  for (const size_t bytes : {offsetof(FfiApi, run_id_get), offsetof(FfiApi, device_ordinal_get)}) {
    api_.struct_size = bytes;
    EXPECT_EQ(Run("allreduce"),
              "12: farandole needs a newer XLA for arrays in GPUs: this one does not tell which GPU it is");
  }
  EXPECT_EQ(the_world.calls, Calls());
}

TEST_F(HandlersTest, AnInterfaceOfAnotherMajorVersionIsRefused) {
  api_.version.major_version = 1;
  EXPECT_NE(Run("allreduce").find("12: farandole.jax knows XLA's foreign function interface 0"), std::string::npos);
  EXPECT_EQ(the_world.calls, Calls());
}

TEST_F(HandlersTest, AGpuThatTheLibraryCannotUseIsAnError) {
  the_world.stream_code = FARANDOLE_FAILED_PRECONDITION;
  the_world.reason = "there is no NCCL";
  EXPECT_EQ(Run("allreduce"), "9: there is no NCCL");
  EXPECT_EQ(the_world.calls, Calls({"use XLA's stream"})) << "nothing is submitted";
}

TEST_F(HandlersTest, XlasOwnErrorsAreItsOwn) {
  the_world.device_error = new FfiError{13, "no device"};
  EXPECT_EQ(Run("allreduce"), "13: no device");
  the_world.device_error = nullptr;
  the_world.stream_error = new FfiError{13, "no stream"};
  EXPECT_EQ(Run("allreduce"), "13: no stream");
  EXPECT_EQ(the_world.calls, Calls());
}

TEST_F(HandlersTest, AnArrayThatCannotTravelUsesNoStream) {
  Frame frame(&api_);
  frame.AddArray(kComplex64, 4, 4);
  EXPECT_NE(Run("allreduce", &frame).find("3: step/call.1: an array of XLA's element type 15"), std::string::npos);
  EXPECT_EQ(the_world.calls, Calls());
}

TEST_F(HandlersTest, TheStreamIsGivenBackAfterARefusedSubmission) {
  the_world.submission_code = FARANDOLE_INVALID_ARGUMENT;
  the_world.reason = "the name is pending";
  EXPECT_EQ(Run("allreduce"), "3: the name is pending");
  EXPECT_EQ(the_world.calls, Calls({"use XLA's stream", "allreduce step/call.1", "use no stream"}));
}

TEST_F(HandlersTest, TheStreamIsGivenBackWhenARankHasDied) {
  the_world.wait_code = FARANDOLE_ABORTED;
  the_world.reason = "rank 1 has died";
  EXPECT_EQ(Run("allreduce"), "10: rank 1 has died");
  EXPECT_EQ(the_world.calls, Calls({"use XLA's stream", "allreduce step/call.1", "release", "use no stream"}));
}

TEST_F(HandlersTest, TheCallerWaitsInSlicesForTheOtherRanks) {
  the_world.slices = 3;
  EXPECT_EQ(Run("allreduce"), "");
  EXPECT_EQ(the_world.slices, 0);
  EXPECT_EQ(the_world.slice_ms, 100);
  EXPECT_EQ(the_world.calls.back(), "use no stream");
}

TEST_F(HandlersTest, AQuestionForMetadataIsNoCall) {
  FfiMetadata metadata = {sizeof(FfiMetadata), {}, 1, {0}};
  FfiMetadataExtension question = {{sizeof(FfiMetadataExtension), kFfiMetadata, nullptr}, &metadata};
  Frame frame(&api_);
  frame.AskForMetadata(&question);
  EXPECT_EQ(Run("allreduce", &frame), "");
  EXPECT_EQ(metadata.api_version.minor_version, 1);
  EXPECT_EQ(metadata.traits, 0U);
  EXPECT_EQ(the_world.calls, Calls());
}

TEST_F(HandlersTest, ASecondPlaceOfAProgramHasANameOfItsOwn) {
  api_.version.minor_version = 3;
  for (const char* const name : {"step/call.1", "step/call.1#2"}) {
    Frame frame(&api_);
    frame.AddNumber("program", 1);
    frame.AddArray(kFloat32, 4, 4);
    EXPECT_EQ(Take(frame.Run(Instantiate)), "");
    the_world.calls.clear();
    EXPECT_EQ(Run("allreduce", &frame), "");
    ASSERT_GE(the_world.calls.size(), 2U);
    EXPECT_EQ(the_world.calls[1], std::string("allreduce ") + name);
  }
  delete_state(the_world.state);
}

}  // namespace
}  // namespace farandole::jax
