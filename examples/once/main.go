// Command once charges a card once, however often it is run with one key:
//
//	onced dev
//	go run ./examples/once -key order-0001
//	go run ./examples/once -key order-0001
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log"
	"strings"
	"time"

	"github.com/onced/onced/client"
)

type order struct {
	Amount int `json:"amount"`
}

type receipt struct {
	ChargeID string `json:"chargeId"`
}

// charge stands for the call that must not happen twice.
func charge(_ context.Context, o order) (receipt, error) {
	if o.Amount <= 0 {
		// Declined for good: recorded, and told to everybody who asks again.
		return receipt{}, client.Failed("amount_invalid", errors.New("the amount must be above zero"))
	}
	return receipt{ChargeID: fmt.Sprintf("ch_%d", time.Now().UnixNano())}, nil
}

func main() {
	endpoints := flag.String("endpoints", client.DefaultEndpoint, "nodes of the cluster, comma-separated")
	key := flag.String("key", "order-0001", "names the order")
	amount := flag.Int("amount", 10, "what to charge")
	flag.Parse()

	c, err := client.New(client.WithEndpoints(strings.Split(*endpoints, ",")...))
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()
	o := order{*amount}
	out, err := client.Do(context.Background(), c, client.Call{Key: *key, Operation: "payments.charge", Request: o, Wait: 10 * time.Second},
		func(ctx context.Context, a client.Attempt) (receipt, error) { return charge(ctx, o) })

	var failed *client.FailedError
	switch {
	case err == nil:
		fmt.Printf("%s replayed=%t\n", out.Value.ChargeID, out.Replayed)
	case errors.As(err, &failed):
		fmt.Printf("declined: %s replayed=%t\n", failed.Code, failed.Replayed)
	case errors.Is(err, client.ErrUncertain):
		fmt.Println("it may have been charged: look, then onced resolve", *key)
	default:
		fmt.Println("not charged:", err)
	}
}
