// Drive sends writes that grow workloads through an Envoy, over so many TLS connections, one at a time on each. The
// requests are made beforehand, and only their counts change: a client costs little beside what it drives.
package main

import (
	"bufio"
	"bytes"
	"crypto/tls"
	"flag"
	"fmt"
	"io"
	"log"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"extauthz.dev/bench/peers/driving"
)

// firstCount is the count that the requests of the file ask for. All counts have as many digits.
const firstCount = 1000

func main() {
	address := flag.String("address", "", "host:port of Envoy")
	ca := flag.String("ca", "", "PEM of its authority")
	file := flag.String("requests", "", "JSON list of whole HTTP/1.1 requests")
	connections := flag.Int("connections", 1, "how many")
	seconds := flag.Float64("seconds", 1, "for how long")
	start := flag.Int64("start", 0, "how many were sent before, in earlier runs")
	flag.Parse()
	runtime.GOMAXPROCS(1)
	requests := [][]byte{}
	for _, one := range driving.Read[string](*file) {
		requests = append(requests, []byte(one))
	}
	config := driving.Trust(*ca)
	config.ServerName = "localhost"
	sent := atomic.Int64{}
	sent.Store(*start)
	refused := atomic.Int64{}
	took := make([][]float64, *connections)
	streams := make([]*tls.Conn, *connections)
	for number := range streams {
		stream, err := tls.Dial("tcp", *address, config)
		if err != nil {
			log.Fatal(err)
		}
		streams[number] = stream
	}
	begin := time.Now()
	end := begin.Add(time.Duration(*seconds * float64(time.Second)))
	var all sync.WaitGroup
	for number, stream := range streams {
		all.Go(func() {
			answers := bufio.NewReader(stream)
			for time.Now().Before(end) {
				n := sent.Add(1) - 1
				request := grown(requests[n%int64(len(requests))], firstCount+1+n/int64(len(requests)))
				asked := time.Now()
				if _, err := stream.Write(request); err != nil {
					log.Fatal(err)
				}
				if !allowed(answers) {
					refused.Add(1)
				}
				took[number] = append(took[number], time.Since(asked).Seconds())
			}
		})
	}
	all.Wait()
	driving.Tell(map[string]any{
		"seconds": time.Since(begin).Seconds(), "took": driving.Flat(took),
		"refused": refused.Load(), "sent": sent.Load(),
	})
}

// grown asks for a count in place of the first one.
func grown(request []byte, count int64) []byte {
	spelled := fmt.Appendf(nil, ":%d}", count)
	return bytes.Replace(request, fmt.Appendf(nil, ":%d}", firstCount), spelled, 1)
}

// allowed reads one answer to its end, and says whether it was 200.
func allowed(answers *bufio.Reader) bool {
	status := line(answers)
	length := 0
	for {
		header := line(answers)
		if header == "" {
			break
		}
		if value, found := strings.CutPrefix(strings.ToLower(header), "content-length:"); found {
			length, _ = strconv.Atoi(strings.TrimSpace(value))
		}
	}
	if _, err := io.CopyN(io.Discard, answers, int64(length)); err != nil {
		log.Fatal(err)
	}
	return strings.HasPrefix(status, "HTTP/1.1 200")
}

func line(answers *bufio.Reader) string {
	text, err := answers.ReadString('\n')
	if err != nil {
		log.Fatal(err)
	}
	return strings.TrimRight(text, "\r\n")
}
