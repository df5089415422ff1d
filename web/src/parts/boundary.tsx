/** An error boundary: an error in one part does not affect the others. */
import type { ReactNode } from "react";
import { Component } from "react";

interface BoundaryProps {
  /** Shown instead of the part; `retry` renders the part again. */
  instead: (error: unknown, retry: () => void) => ReactNode;
  /** With another value here the part is tried again. */
  until?: unknown;
  children: ReactNode;
}

interface BoundaryState {
  error: unknown;
  failed: boolean;
}

export class Boundary extends Component<BoundaryProps, BoundaryState> {
  override state: BoundaryState = { error: null, failed: false };

  static getDerivedStateFromError(error: unknown): BoundaryState {
    return { error, failed: true };
  }

  override componentDidUpdate(before: BoundaryProps): void {
    if (this.state.failed && before.until !== this.props.until) this.retry();
  }

  readonly retry = (): void => this.setState({ error: null, failed: false });

  override render(): ReactNode {
    return this.state.failed ? this.props.instead(this.state.error, this.retry) : this.props.children;
  }
}
