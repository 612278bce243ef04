import io.trino.plugin.iceberg.IcebergPlugin;
import io.trino.server.testing.TestingTrinoServer;
import java.io.FileDescriptor;
import java.io.FileOutputStream;
import java.io.PrintStream;
import java.util.HashMap;

/**
 * A server of Trino whose catalog `lake` is one of the connector for Iceberg. The arguments are `name=value` of the catalog.
 * The first line of the output is the address; the server ends with its input.
 */
class TrinoWithIceberg {
    public static void main(String[] arguments) throws Exception {
        var properties = new HashMap<String, String>();
        for (String one : arguments) {
            var parts = one.split("=", 2);
            properties.put(parts[0], parts[1]);
        }
        var server = TestingTrinoServer.create();
        server.installPlugin(new IcebergPlugin());
        server.createCatalog("lake", "iceberg", properties);
        new PrintStream(new FileOutputStream(FileDescriptor.out), true).println(server.getBaseUrl()); // System.out is the log
        while (System.in.read() >= 0) {
        }
        System.exit(0);
    }
}
