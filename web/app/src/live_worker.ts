// The SharedWorker: one broker for all pages of this browser. A page that is gone says so, or its port is told in vain.
import { Broker, type Told, type Wish } from "./broker";

const broker = new Broker();

(globalThis as unknown as { onconnect: (event: MessageEvent) => void }).onconnect = (event) => {
  const port = event.ports[0];
  if (!port) return;
  const listener = (told: Told): void => port.postMessage(told);
  port.onmessage = (message: MessageEvent<Wish | "gone">) => {
    if (message.data === "gone") broker.drop(listener);
    else broker.set(listener, message.data);
  };
};
