import com.sun.net.httpserver.HttpServer;
import java.io.IOException;
import java.io.InputStream;
import java.net.ConnectException;
import java.net.InetSocketAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.net.http.HttpTimeoutException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.MessageDigest;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.CyclicBarrier;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.ScheduledExecutorService;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.zip.CRC32;

/**
 * A guest in Java: {@code serve} serves HTTP until it is told to end, {@code fetch HOST} is its client, {@code alone} does what needs
 * no other host. All output is the same in every run on every machine.
 */
public final class Guest {
    private static final int PORT = 8080;

    public static void main(String[] arguments) throws Exception {
        switch (arguments[0]) {
            case "serve" -> serve();
            case "fetch" -> fetch(arguments[1]);
            case "alone" -> alone();
            default -> System.exit(2);
        }
        System.exit(0);
    }

    private static HttpServer server(int port, AtomicInteger requests, CountDownLatch end) throws IOException {
        HttpServer server = HttpServer.create(new InetSocketAddress(port), 50);
        server.createContext("/page/", exchange -> {
            requests.incrementAndGet();
            byte[] body = (exchange.getRequestURI() + "\n").repeat(3000).getBytes();
            exchange.sendResponseHeaders(200, body.length);
            exchange.getResponseBody().write(body);
            exchange.close();
        });
        server.createContext("/sum", exchange -> {
            requests.incrementAndGet();
            byte[] body = exchange.getRequestBody().readAllBytes();
            byte[] answer = (body.length + " " + checksum(body)).getBytes();
            exchange.sendResponseHeaders(200, answer.length);
            exchange.getResponseBody().write(answer);
            exchange.close();
        });
        server.createContext("/slow", exchange -> {
            requests.incrementAndGet();
            if (exchange.getRequestURI().getQuery() != null) {
                end.countDown();
            }
        });
        server.setExecutor(Executors.newFixedThreadPool(4));
        server.start();
        return server;
    }

    private static void serve() throws Exception {
        AtomicInteger requests = new AtomicInteger();
        CountDownLatch end = new CountDownLatch(1);
        HttpServer server = server(PORT, requests, end);
        end.await();
        server.stop(0);
        System.out.println("requests " + requests);
    }

    private static HttpRequest.Builder request(String host, int port, String path) {
        return HttpRequest.newBuilder(URI.create("http://" + host + ":" + port + path));
    }

    private static void fetch(String host) throws Exception {
        HttpClient client = HttpClient.newBuilder().version(HttpClient.Version.HTTP_1_1).build();
        List<CompletableFuture<HttpResponse<String>>> answers = new ArrayList<>();
        for (int i = 0; i < 20; i++) {
            HttpRequest request = request(host, PORT, "/page/" + i).build();
            answers.add(client.sendAsync(request, HttpResponse.BodyHandlers.ofString()));
        }
        for (CompletableFuture<HttpResponse<String>> answer : answers) {
            String body = answer.get().body();
            System.out.println(answer.get().statusCode() + " " + body.length() + " " + body.lines().findFirst().get());
        }
        HttpRequest.BodyPublisher body = HttpRequest.BodyPublishers.ofString("body ".repeat(200_000));
        HttpRequest post = request(host, PORT, "/sum").POST(body).build();
        System.out.println(client.send(post, HttpResponse.BodyHandlers.ofString()).body());
        long start = System.nanoTime();
        try {
            client.send(
                request(host, PORT, "/slow").timeout(Duration.ofSeconds(3)).build(), HttpResponse.BodyHandlers.discarding());
        } catch (HttpTimeoutException error) {
            System.out.println("timeout " + Math.round((System.nanoTime() - start) / 1e9) + " s");
        }
        try {
            client.send(request(host, 9, "/").build(), HttpResponse.BodyHandlers.discarding());
        } catch (ConnectException error) {
            System.out.println("refused");
        }
        client.sendAsync(request(host, PORT, "/slow?end").build(), HttpResponse.BodyHandlers.discarding());
        Thread.sleep(500);
    }

    private static void alone() throws Exception {
        compute();
        garbage();
        threads();
        processes();
        sockets();
        files();
        timers();
    }

    private static long checksum(byte[] data) {
        CRC32 sum = new CRC32();
        sum.update(data);
        return sum.getValue();
    }

    /** Enough for the compilers. */
    private static void compute() throws Exception {
        long sum = 0;
        for (int i = 0; i < 3_000_000; i++) {
            sum = sum * 31 + (i ^ sum >>> 7);
        }
        Map<String, Integer> words = new HashMap<>();
        for (int i = 0; i < 20_000; i++) {
            words.merge("word" + i % 997, 1, Integer::sum);
        }
        byte[] hash = MessageDigest.getInstance("SHA-256").digest(words.toString().getBytes());
        System.out.println("computed " + sum + " " + words.size() + " " + (hash[0] & 255));
        int depth = 0;
        try {
            depth = recurse(0);
        } catch (StackOverflowError error) {
            System.out.println("stack overflow");
        }
        Object nothing = depth == 0 ? null : "";
        try {
            nothing.hashCode();
        } catch (NullPointerException error) {
            System.out.println("null pointer");
        }
    }

    private static int recurse(int depth) {
        return recurse(depth + 1) + 1;
    }

    private static void garbage() {
        byte[][] kept = new byte[500][];
        long total = 0;
        for (int i = 0; i < 50_000; i++) {
            kept[i * 7 % kept.length] = new byte[1000 + i % 3000];
        }
        for (byte[] block : kept) {
            total += block.length;
        }
        System.gc();
        System.out.println("kept " + total);
    }

    private static void threads() throws Exception {
        ExecutorService pool = Executors.newFixedThreadPool(8);
        AtomicInteger count = new AtomicInteger();
        CyclicBarrier barrier = new CyclicBarrier(8, () -> count.addAndGet(1000));
        List<Future<Integer>> results = new ArrayList<>();
        for (int i = 0; i < 8; i++) {
            int number = i;
            results.add(pool.submit(() -> {
                for (int j = 0; j < 10; j++) {
                    barrier.await();
                    count.incrementAndGet();
                }
                return number * number;
            }));
        }
        int sum = 0;
        for (Future<Integer> result : results) {
            sum += result.get();
        }
        pool.shutdown();
        System.out.println("threads " + sum + " " + count + " " + pool.awaitTermination(10, TimeUnit.SECONDS));
        Object monitor = new Object();
        int[] turn = {0};
        Thread[] players = new Thread[3];
        for (int i = 0; i < players.length; i++) {
            int own = i;
            players[i] = new Thread(() -> {
                for (int round = 0; round < 50; round++) {
                    synchronized (monitor) {
                        while (turn[0] % players.length != own) {
                            try {
                                monitor.wait();
                            } catch (InterruptedException error) {
                                return;
                            }
                        }
                        turn[0]++;
                        monitor.notifyAll();
                    }
                }
            });
            players[i].start();
        }
        for (Thread player : players) {
            player.join();
        }
        System.out.println("turns " + turn[0]);
    }

    private static void processes() throws Exception {
        Process shell = new ProcessBuilder("sh", "-c", "read line; echo \"got $line\"; echo err >&2; exit 3").start();
        shell.getOutputStream().write("a line\n".getBytes());
        shell.getOutputStream().close();
        String out = new String(shell.getInputStream().readAllBytes()).trim();
        String err = new String(shell.getErrorStream().readAllBytes()).trim();
        System.out.println(out + ", " + err + ", " + shell.waitFor());
        Process sleeper = new ProcessBuilder("sleep", "100").start();
        System.out.println(sleeper.waitFor(50, TimeUnit.MILLISECONDS) + " " + sleeper.isAlive());
        sleeper.destroy();
        System.out.println(sleeper.waitFor());
        try {
            new ProcessBuilder("no-such-command").start();
        } catch (IOException error) {
            System.out.println("no such command");
        }
    }

    private static void sockets() throws Exception {
        try (ServerSocket listener = new ServerSocket(0)) {
            Thread echo = new Thread(() -> {
                try (Socket socket = listener.accept(); InputStream in = socket.getInputStream()) {
                    in.transferTo(socket.getOutputStream());
                } catch (IOException error) {
                    System.out.println(error);
                }
            });
            echo.start();
            try (Socket socket = new Socket("localhost", listener.getLocalPort())) {
                socket.getOutputStream().write("echoed".repeat(1000).getBytes());
                socket.shutdownOutput();
                System.out.println("echo " + socket.getInputStream().readAllBytes().length);
            }
            echo.join();
        }
        AtomicInteger requests = new AtomicInteger();
        HttpServer server = server(0, requests, new CountDownLatch(1));
        HttpRequest request = request("localhost", server.getAddress().getPort(), "/page/1").build();
        System.out.println(HttpClient.newHttpClient().send(request, HttpResponse.BodyHandlers.ofString()).body().length());
        server.stop(0);
    }

    private static void files() throws IOException {
        Path folder = Files.createTempDirectory("guest");
        Path file = folder.resolve("file");
        Files.writeString(file, "line\n".repeat(10_000));
        System.out.println(Files.size(file) + " " + Files.lines(file).count() + " " + checksum(Files.readAllBytes(file)));
        Files.delete(file);
        Files.delete(folder);
        System.out.println(Files.exists(folder));
    }

    private static void timers() throws Exception {
        ScheduledExecutorService timer = Executors.newScheduledThreadPool(2);
        CountDownLatch ticks = new CountDownLatch(5);
        long start = System.nanoTime();
        timer.scheduleAtFixedRate(ticks::countDown, 20, 20, TimeUnit.MILLISECONDS);
        ticks.await();
        System.out.println("ticks " + (System.nanoTime() - start >= 100_000_000L));
        timer.shutdownNow();
        Runtime.getRuntime().addShutdownHook(new Thread(() -> System.out.println("ended")));
    }
}
