// Says whether an API server of this release takes a definition: one on stdin, what is wrong on stdout.
package main

import (
	"context"
	"fmt"
	"io"
	"os"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	v1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/validation"
	"sigs.k8s.io/yaml"
)

func main() {
	text, err := io.ReadAll(os.Stdin)
	stop(err)
	written, read := &v1.CustomResourceDefinition{}, &apiextensions.CustomResourceDefinition{}
	stop(yaml.UnmarshalStrict(text, written))
	v1.SetDefaults_CustomResourceDefinitionSpec(&written.Spec)
	stop(v1.Convert_v1_CustomResourceDefinition_To_apiextensions_CustomResourceDefinition(written, read, nil))
	refused := validation.ValidateCustomResourceDefinition(context.Background(), read)
	for _, each := range refused {
		fmt.Println(each)
	}
	if len(refused) > 0 {
		os.Exit(1)
	}
}

func stop(err error) {
	if err != nil {
		panic(err)
	}
}
