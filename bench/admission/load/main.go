// Load raises the replicas of many Deployments, one at each client, at a steady pace or as fast as they are answered.
package main

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"log"
	"net/http"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// perConnection bounds what shares an HTTP/2 connection: an API server takes 100 requests on one.
const perConnection = 50

func main() {
	server := flag.String("server", "", "URL of the API server")
	folder := flag.String("folder", "", "with ca.crt, admin.crt and admin.key")
	clients := flag.Int("clients", 1, "how many at a time")
	first := flag.Int("first", 0, "the count of the first write")
	seconds := flag.Float64("seconds", 1, "for how long")
	rate := flag.Float64("rate", 0, "writes a second of all clients together; 0: as fast as they are answered")
	flag.Parse()
	config := trust(*folder)
	var every time.Duration
	if *rate > 0 {
		every = time.Duration(float64(*clients) / *rate * float64(time.Second))
	}
	start := time.Now()
	end := start.Add(time.Duration(*seconds * float64(time.Second)))
	took := make([][]float64, *clients)
	var failed atomic.Int64
	var all sync.WaitGroup
	var http2 *http.Client
	for number := range *clients {
		if number%perConnection == 0 {
			http2 = &http.Client{Transport: &http.Transport{TLSClientConfig: config, ForceAttemptHTTP2: true}}
		}
		all.Add(1)
		go func(client *http.Client) {
			defer all.Done()
			url := fmt.Sprintf("%s/apis/apps/v1/namespaces/load/deployments/web-%d/scale", *server, number)
			next := start.Add(every * time.Duration(number) / time.Duration(*clients))
			for count := *first; ; count++ {
				time.Sleep(time.Until(next))
				if !time.Now().Before(end) {
					return
				}
				next = next.Add(every)
				seconds, ok := raise(client, url, count)
				if !ok {
					failed.Add(1)
				}
				took[number] = append(took[number], seconds)
			}
		}(http2)
	}
	all.Wait()
	if err := json.NewEncoder(os.Stdout).Encode(map[string]any{"took": took, "failed": failed.Load()}); err != nil {
		log.Fatal(err)
	}
}

// raise says how many seconds one write took, and whether it was done.
func raise(client *http.Client, url string, count int) (float64, bool) {
	body := fmt.Sprintf(`[{"op":"add","path":"/spec/replicas","value":%d}]`, count)
	request, err := http.NewRequest("PATCH", url, strings.NewReader(body))
	if err != nil {
		log.Fatal(err)
	}
	request.Header.Set("content-type", "application/json-patch+json")
	start := time.Now()
	answer, err := client.Do(request)
	if err != nil {
		log.Fatal(err)
	}
	_, _ = io.Copy(io.Discard, answer.Body)
	_ = answer.Body.Close()
	return time.Since(start).Seconds(), answer.StatusCode == http.StatusOK
}

func trust(folder string) *tls.Config {
	pair, err := tls.LoadX509KeyPair(folder+"/admin.crt", folder+"/admin.key")
	if err != nil {
		log.Fatal(err)
	}
	pem, err := os.ReadFile(folder + "/ca.crt")
	if err != nil {
		log.Fatal(err)
	}
	authorities := x509.NewCertPool()
	authorities.AppendCertsFromPEM(pem)
	return &tls.Config{Certificates: []tls.Certificate{pair}, RootCAs: authorities}
}
