#ifndef FARANDOLE_SERVER_EDGE_RAW_SERVICE_H_
#define FARANDOLE_SERVER_EDGE_RAW_SERVICE_H_

#include <functional>
#include <memory>
#include <type_traits>
#include <utility>

#include "base/check.h"
#include "google/protobuf/descriptor.h"
#include "grpcpp/grpcpp.h"
#include "grpcpp/support/byte_buffer.h"
#include "server/edge/answers/unary_call.h"
#include "server/edge/call_router.h"

namespace farandole {

// A service of proto/farandole/v1 that hears of its calls by their headers, and whose messages come as bytes: gRPC
// would take in and read each one before anybody has asked what it costs. `Of` is the generated class,
// v1::WorkerService.
template <typename Of>
class RawService : public Of::Service {
 public:
  explicit RawService(CallRouter* router) : router_(router) {}

 protected:
  template <typename Self, typename Request, typename Response>
  using Method = void (Self::*)(UnaryCall*, Request*, Response*);
  using StreamMethod = grpc::internal::CallbackBidiHandler<grpc::ByteBuffer, grpc::ByteBuffer>;
  using BidiReactor = grpc::ServerBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer>;

  // Has `method` called with each call of this name: it ends the call, then or later. The messages are there until
  // then. It may take what the request has (Request), or only look at it (const Request).
  template <typename Self, typename Request, typename Response>
  void Serve(const char* name, Method<Self, Request, Response> method) {
    const google::protobuf::MethodDescriptor& about = MethodOf(name);
    const auto start = [this, method, &about](grpc::CallbackServerContext* context) {
      UnaryCall* const call = UnaryCall::Start(context);
      auto request = std::make_unique<std::remove_const_t<Request>>();
      auto response = std::make_unique<Response>();
      std::remove_const_t<Request>* const asked = request.get();
      Response* const told = response.get();
      call->Keep(std::move(request), std::move(response));
      router_->Await(call, about, asked, [=] { (static_cast<Self*>(this)->*method)(call, asked, told); });
      return call;
    };
    // gRPC tells of a unary call when all of its message has come, and of a stream when its headers have.
    this->MarkMethodStreamed(about.index(), new StreamMethod(start));
    this->MarkMethodRawCallback(about.index(), new StreamMethod(start));
  }
  // Has `start` called with each stream of this name.
  void ServeStreams(const char* name, std::function<BidiReactor*(grpc::CallbackServerContext*)> start) {
    this->MarkMethodRawCallback(MethodOf(name).index(), new StreamMethod(std::move(start)));
  }

  CallRouter* const router_;

 private:
  static const google::protobuf::MethodDescriptor& MethodOf(const char* name) {
    const auto* pool = google::protobuf::DescriptorPool::generated_pool();
    const auto* method = pool->FindServiceByName(Of::service_full_name())->FindMethodByName(name);
    FD_CHECK(method != nullptr) << Of::service_full_name() << " has no method " << name;
    return *method;
  }
};

}  // namespace farandole

#endif  // FARANDOLE_SERVER_EDGE_RAW_SERVICE_H_
