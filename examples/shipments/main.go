// Command shipments is a small MCP server with made-up data, for the example
// cell beside it: orders, their shipments, a carrier that answers slowly, and
// notices to customers.
package main

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// carrierTime is how long the carrier takes to answer. It is longer than the
// deadline of the example, so that the cell is suspended.
const carrierTime = 2500 * time.Millisecond

type searchInput struct {
	Customer string `json:"customer,omitempty" jsonschema:"only orders of this customer"`
	Status   string `json:"status,omitempty" jsonschema:"only orders of this status: open, shipped or closed"`
}

type searchOutput struct {
	Orders []order `json:"orders"`
}

type shipmentInput struct {
	ID string `json:"id" jsonschema:"the id of the shipment, such as S-1001"`
}

type trackOutput struct {
	ID       string `json:"id"`
	Position string `json:"position"`
	ETA      string `json:"eta"`
}

type notifyInput struct {
	Customer string `json:"customer"`
	Message  string `json:"message"`
}

type notifyOutput struct {
	Sent bool `json:"sent"`
}

func main() {
	server := mcp.NewServer(&mcp.Implementation{Name: "shipments", Version: "1"}, &mcp.ServerOptions{
		Instructions: "Orders and shipments of a small shop.",
	})
	mcp.AddTool(server, &mcp.Tool{Name: "search_orders", Description: "Find orders by customer and status."}, search)
	mcp.AddTool(server, &mcp.Tool{Name: "get_shipment", Description: "One shipment: carrier, weight, where it is due and when."}, getShipment)
	mcp.AddTool(server, &mcp.Tool{Name: "track", Description: "Ask the carrier where a shipment is. Takes a few seconds."}, track)
	mcp.AddTool(server, &mcp.Tool{Name: "notify", Description: "Send a short message to a customer."}, notify)
	if err := server.Run(context.Background(), &mcp.StdioTransport{}); err != nil {
		fmt.Fprintln(os.Stderr, "shipments:", err)
		os.Exit(1)
	}
}

func search(_ context.Context, _ *mcp.CallToolRequest, in searchInput) (*mcp.CallToolResult, searchOutput, error) {
	found := searchOutput{Orders: []order{}}
	for _, o := range orders() {
		if (in.Customer == "" || strings.EqualFold(in.Customer, o.Customer)) && (in.Status == "" || in.Status == o.Status) {
			found.Orders = append(found.Orders, o)
		}
	}
	return nil, found, nil
}

func find(id string) (shipment, error) {
	all := shipments()
	i := slices.IndexFunc(all, func(s shipment) bool { return s.ID == id })
	if i < 0 {
		return shipment{}, fmt.Errorf("there is no shipment %q", id)
	}
	return all[i], nil
}

func getShipment(_ context.Context, _ *mcp.CallToolRequest, in shipmentInput) (*mcp.CallToolResult, shipment, error) {
	s, err := find(in.ID)
	return nil, s, err
}

func track(ctx context.Context, _ *mcp.CallToolRequest, in shipmentInput) (*mcp.CallToolResult, trackOutput, error) {
	s, err := find(in.ID)
	if err != nil {
		return nil, trackOutput{}, err
	}
	select {
	case <-time.After(carrierTime):
		return nil, trackOutput{ID: s.ID, Position: s.position, ETA: s.eta}, nil
	case <-ctx.Done():
		return nil, trackOutput{}, ctx.Err()
	}
}

func notify(_ context.Context, _ *mcp.CallToolRequest, in notifyInput) (*mcp.CallToolResult, notifyOutput, error) {
	fmt.Fprintf(os.Stderr, "to %s: %s\n", in.Customer, in.Message)
	return nil, notifyOutput{Sent: true}, nil
}
