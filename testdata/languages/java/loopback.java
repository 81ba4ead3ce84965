// A web server and its client, sockets and channels, on the cell's own loopback.
import com.sun.net.httpserver.HttpServer;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse.BodyHandlers;
import java.nio.ByteBuffer;
import java.nio.channels.SelectionKey;
import java.nio.channels.Selector;
import java.nio.channels.ServerSocketChannel;
import java.nio.channels.SocketChannel;

public class Main {
	static void web() throws Exception {
		var server = HttpServer.create(new InetSocketAddress("localhost", 0), 0);
		server.createContext("/", exchange -> {
			var body = (exchange.getRequestURI() + " " + new String(exchange.getRequestBody().readAllBytes())).getBytes();
			exchange.sendResponseHeaders(201, body.length);
			try (var out = exchange.getResponseBody()) {
				out.write(body);
			}
		});
		server.start();
		var uri = URI.create("http://localhost:" + server.getAddress().getPort() + "/a?b=c");
		var r = HttpClient.newHttpClient().send(HttpRequest.newBuilder(uri).POST(HttpRequest.BodyPublishers.ofString("body")).build(), BodyHandlers.ofString());
		System.out.println(r.statusCode() + " " + r.body());
		server.stop(0);
	}

	static void sockets(String host) throws Exception {
		try (var server = new ServerSocket(0, 5, InetAddress.getByName(host))) {
			var t = new Thread(() -> {
				try (var s = new Socket(host, server.getLocalPort())) {
					s.getOutputStream().write("socket".getBytes());
				} catch (Exception e) {
					System.out.println(e);
				}
			});
			t.start();
			try (var s = server.accept()) {
				System.out.println(host + " " + new String(s.getInputStream().readAllBytes()));
			}
			t.join();
		}
	}

	static void channels() throws Exception {
		try (var selector = Selector.open(); var server = ServerSocketChannel.open().bind(new InetSocketAddress("127.0.0.1", 0));
				var client = SocketChannel.open(server.getLocalAddress())) {
			server.configureBlocking(false);
			server.register(selector, SelectionKey.OP_ACCEPT);
			client.write(ByteBuffer.wrap("channel".getBytes()));
			System.out.print(selector.select(5000) + " ");
			try (var s = server.accept()) {
				var b = ByteBuffer.allocate(100);
				s.read(b);
				System.out.println(new String(b.array(), 0, b.position()));
			}
		}
	}

	public static void main(String[] args) throws Exception {
		web();
		sockets("127.0.0.1");
		sockets("::1");
		channels();
		try {
			new Socket("192.0.2.1", 80);
		} catch (Exception e) {
			System.out.println(e.getMessage());
		}
		System.exit(0);
	}
}
