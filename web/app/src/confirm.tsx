// Buttons that ask back before they act.
import type { JSX, RefObject } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";

// As many characters as a reason may have: the coordinator takes 1,024 bytes.
const MOST_REASON = 256;

interface Question<First extends HTMLElement> {
  readonly isAsking: boolean;
  readonly setAsking: (is: boolean) => void;
  // Has the focus when the question comes; the button has it again afterwards.
  readonly first: RefObject<First | null>;
  readonly opener: RefObject<HTMLButtonElement | null>;
}

function useQuestion<First extends HTMLElement>(): Question<First> {
  const [isAsking, setAsking] = useState(false);
  const first = useRef<First>(null);
  const opener = useRef<HTMLButtonElement>(null);
  const wasAsking = useRef(false);
  useEffect(() => {
    if (isAsking) first.current?.focus();
    else if (wasAsking.current) opener.current?.focus();
    wasAsking.current = isAsking;
  }, [isAsking]);
  return { isAsking, setAsking, first, opener };
}

interface ConfirmedProps {
  readonly name: string;
  // Says what the button does to the job.
  readonly question: string;
  readonly onConfirm: () => void;
}

// A button that asks before it acts.
export function Confirmed({ name, question, onConfirm }: ConfirmedProps): JSX.Element {
  const { isAsking, setAsking, first, opener } = useQuestion<HTMLButtonElement>();
  if (!isAsking) {
    return (
      <button type="button" ref={opener} onClick={() => setAsking(true)}>
        {name}
      </button>
    );
  }
  const confirm = (): void => {
    setAsking(false);
    onConfirm();
  };
  return (
    <span class="confirm" role="group" aria-label={name} onKeyDown={(event) => event.key === "Escape" && setAsking(false)}>
      <span>{question} </span>
      <button type="button" ref={first} onClick={confirm}>
        {`Yes: ${name.toLowerCase()}`}
      </button>{" "}
      <button type="button" onClick={() => setAsking(false)}>
        No
      </button>
    </span>
  );
}

interface ReasonedProps {
  readonly name: string;
  readonly question: string;
  readonly onConfirm: (reason: string) => void;
}

// A button that asks for a reason before it acts: workers and the job's history are told it.
export function Reasoned({ name, question, onConfirm }: ReasonedProps): JSX.Element {
  const { isAsking, setAsking, first, opener } = useQuestion<HTMLInputElement>();
  const [reason, setReason] = useState("");
  if (!isAsking) {
    return (
      <button type="button" ref={opener} onClick={() => setAsking(true)}>
        {name}
      </button>
    );
  }
  const confirm = (event: Event): void => {
    event.preventDefault();
    setAsking(false);
    setReason("");
    onConfirm(reason);
  };
  return (
    <form class="confirm" aria-label={name} onSubmit={confirm} onKeyDown={(event) => event.key === "Escape" && setAsking(false)}>
      <span>{question} </span>
      <label>
        Reason{" "}
        <input ref={first} required maxLength={MOST_REASON} value={reason} onInput={(event) => setReason(event.currentTarget.value)} />
      </label>{" "}
      <button type="submit">{`Yes: ${name.toLowerCase()}`}</button>{" "}
      <button type="button" onClick={() => setAsking(false)}>
        No
      </button>
    </form>
  );
}
