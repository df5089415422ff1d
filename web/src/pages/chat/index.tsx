export default function Chat() {
  return <h1 tabIndex={-1}>Chat</h1>;
}
