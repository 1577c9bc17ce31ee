// Package client calls a onced cluster: it claims keys, settles them, and goes
// on to the next node when one fails. It needs the standard library, package
// idem and one back-off library; neither raft nor a database is linked.
//
//	c, err := client.New(client.WithEndpoints("http://10.0.0.1:4747", "http://10.0.0.2:4747"))
//	...
//	out, err := client.Do(ctx, c, client.Call{Key: "order-0001", Operation: "payments.create", Request: order},
//		func(ctx context.Context, a client.Attempt) (Receipt, error) {
//			receipt, err := bank.Pay(ctx, order)
//			switch {
//			case errors.Is(err, bank.ErrRefusedConnection):
//				return receipt, client.NotStarted(err) // surely not paid: the next attempt pays
//			case errors.Is(err, bank.ErrDeclined):
//				return receipt, client.Failed("declined", err) // for good: every retry is told so
//			}
//			return receipt, err // nil: paid. Anything else: nobody knows, and nobody pays again.
//		})
//	// err == nil: out.Value is the one receipt of order-0001, out.Replayed tells whose.
//
// Do is all that most callers need; Reserve, Commit, Fail, Release and Extend
// are its parts.
//
// # What a caller may rely on
//
// Fail closed: without a decision of the cluster there is no claim, and Do does
// not run (FailOpen, by that name only). A call is repeated, at any node, after
// any failure, with the same attemptId or token, so that an answer lost on the
// way neither grants twice nor settles twice. The context's deadline is the
// budget of a call; without one it is WithBudget. Retry-After is obeyed: a node
// that named one is not asked before it is over, and a call whose budget ends
// earlier says so at once.
//
// Errors are matched with errors.Is and the sentinels of this package, and
// errors.As with a *idem.Error gives the record, the verdict and the rest of
// what was told.
package client
