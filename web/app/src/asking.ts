// Changes that a button makes, with a line about how each goes.
import { useState } from "preact/hooks";

export interface Change {
  // The outcome of the last change, or why it was refused; empty before the first.
  readonly said: string;
  // `change` makes it, and says what came of it. It throws a refusal. `meanwhile`: the line until then.
  readonly make: (change: () => Promise<string>, meanwhile?: string) => Promise<void>;
}

export function useChange(): Change {
  const [said, setSaid] = useState("");
  const make = async (change: () => Promise<string>, meanwhile?: string): Promise<void> => {
    if (meanwhile !== undefined) setSaid(meanwhile);
    try {
      setSaid(await change());
    } catch (refusal) {
      setSaid((refusal as Error).message);
    }
  };
  return { said, make };
}

export interface Asking {
  // That they are asked, that they have answered, or why not; empty before the first question.
  readonly said: string;
  readonly ask: () => void;
}

// A question to a job's ranks. `question` asks, and takes the answers into the view. It throws a refusal.
export function useAsking(question: () => Promise<void>): Asking {
  const { said, make } = useChange();
  const ask = async (): Promise<string> => {
    await question();
    return "The ranks have answered.";
  };
  return { said, ask: () => void make(ask, "The ranks are asked; they have 4 s.") };
}
