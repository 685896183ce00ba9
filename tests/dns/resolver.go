// Looks names up with Go's own resolver, over UDP and then over TCP.
package main

import (
	"context"
	"fmt"
	"net"
	"os"
)

func main() {
	for _, network := range []string{"udp", "tcp"} {
		asked := 0
		resolver := net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, server string) (net.Conn, error) {
			asked++
			return (&net.Dialer{}).DialContext(ctx, network, server)
		}}
		for _, name := range os.Args[1:] {
			if net.ParseIP(name) != nil {
				names, err := resolver.LookupAddr(context.Background(), name)
				fmt.Println(name, names, err)
				continue
			}
			addresses, err := resolver.LookupHost(context.Background(), name)
			fmt.Println(name, addresses, err)
			texts, err := resolver.LookupTXT(context.Background(), name)
			fmt.Println(name, texts, err)
		}
		if asked > 0 {
			fmt.Println(network + ": asked")
		}
	}
}
