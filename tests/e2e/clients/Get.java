// Prints what Java's two clients get at a URL: a line of status, rule and body each, or the error.
import java.net.HttpURLConnection;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse.BodyHandlers;

class Get {
    public static void main(String[] arguments) {
        for (String text : arguments) {
            URI url = URI.create(text);
            try {
                var answer = HttpClient.newHttpClient().send(HttpRequest.newBuilder(url).build(), BodyHandlers.ofString());
                var rule = answer.headers().firstValue("fetchd-rule").orElse("none");
                System.out.println("HttpClient " + answer.statusCode() + " " + rule + " " + answer.body().strip());
            } catch (Exception error) {
                System.out.println("HttpClient " + error);
            }
            try {
                var answer = (HttpURLConnection) url.toURL().openConnection();
                var rule = answer.getHeaderField("fetchd-rule");
                System.out.println("HttpURLConnection " + answer.getResponseCode() + " " + rule + " " + answer.getResponseMessage());
            } catch (Exception error) {
                System.out.println("HttpURLConnection " + error);
            }
        }
    }
}
